"""Functions that are singular at a corner of the domain, as solutions of elliptic equations are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Axes, Operator, order_of
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.propagation.propagation import Propagated

FloatArray = npt.NDArray[np.float64]

_NEAR = 0.5
"""Of the size of a window, its distance from a corner whose functions it has."""
_CLOSEST = 1e-16
"""The least |ζ|, since derivatives have no value at the corner itself."""


@dataclass(frozen=True)
class CornerFunction:
    r"""The real and the imaginary part of ζ^λ or ζ^λ log ζ, ζ = w · (x − c) with w complex.

    x are the first two coordinates. Solutions of Σ a_ij ∂²u/∂x_i∂x_j = f behave so at a corner,
    where Σ a_ij w_i w_j = 0. In the plane of ζ it has an angle ω; then λ = kπ/ω, or (k − ½) π/ω
    between a given value and a given flux, with the logarithm where λ is a whole number (Grisvard,
    Elliptic Problems in Nonsmooth Domains, 1985, §4.4). The functions jump across the ray ζ < 0.

    Attributes
    ----------
    at : the corner c, in the units of x.
    real, imaginary : w, in the inverse units of x.
    power : λ, dimensionless.
    logarithm : whether there is one.
    degree : of polynomials in the plane that the functions are multiplied by.
    reach : the distance |ζ| at which the ray of the jump meets the domain again, and from which on
        the functions are not used.
    """

    at: tuple[float, float]
    real: tuple[float, float]
    imaginary: tuple[float, float]
    power: float
    logarithm: bool
    degree: int
    reach: float = math.inf

    @classmethod
    def of(cls, config: Any, dimension: int) -> CornerFunction:
        """Return the function of its attributes, as a file has them, at points [n, d] (local)."""
        names = [each.name for each in fields(cls)]
        config = asdict(config) if isinstance(config, cls) else config
        if not isinstance(config, dict) or {*config} != {*names} or dimension < 2:
            raise InputError(
                f"Polynomials: expected each of corners= to be a CornerFunction or a dict of "
                f"{', '.join(names)}, in two dimensions or more; got {config!r} in {dimension}."
            )
        values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        return cls(**values)

    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the products e: [M, d] that multiply the functions (local)."""
        in_plane, total = exponents[:, :2].sum(axis=1), exponents.sum(axis=1)
        highest = total.max(initial=0) - math.floor(self.power)
        return np.flatnonzero((in_plane <= self.degree) & (total <= highest))

    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        """Return in which boxes [K, d] near to the corner the functions are used (local)."""
        a, b, at = low[:, :2], high[:, :2], np.array(self.at)
        beyond = np.maximum(np.maximum(a - at, at - b), 0.0)
        near = np.all(beyond <= _NEAR * (b - a), axis=1)
        corners = [np.stack([x, y], axis=1) for x, y in product(*zip(a.T, b.T, strict=True))]
        farthest = np.max([np.abs(self._zeta(each)) for each in corners], axis=0)
        return np.asarray(near & (farthest <= self.reach))

    @property
    def _w(self) -> npt.NDArray[np.complex128]:
        return np.array(self.real) + 1j * np.array(self.imaginary)

    def _zeta(self, x: FloatArray) -> npt.NDArray[np.complex128]:
        return np.asarray((x[:, :2] - np.array(self.at)) @ self._w)

    def _derivatives(self, exp: Any, log: Any, order: int) -> list[Any]:
        """Return f^(n) = ζ^(λ − n) (a log ζ + b), n = 0 … order, from log ζ."""
        a, b, found = float(self.logarithm), float(not self.logarithm), []
        for power in (self.power - n for n in range(order + 1)):
            found.append(exp(power * log) * (a * log + b))
            a, b = power * a, power * b + a
        return found

    def parts(self, x: FloatArray, asked: Sequence[Axes]) -> dict[Axes, FloatArray]:
        """Return ∂^α of both parts at x: [N, d] for the axes asked for, [2, N] each (local)."""
        z = self._zeta(x)
        z = np.where(np.abs(z) < _CLOSEST, _CLOSEST, z)
        of_order = self._derivatives(np.exp, np.log(z), max(map(len, asked), default=0))
        values = {axes: self._slope(axes) * of_order[len(axes)] for axes in asked}
        return {axes: np.stack([value.real, value.imag]) for axes, value in values.items()}

    def _slope(self, axes: Axes) -> complex:
        """Return Π w_i over axes, which is 0 where one is not of the plane."""
        w = dict(enumerate(self._w.tolist()))
        return math.prod((w.get(axis, 0.0) for axis in axes), start=complex(1.0))

    def propagate(self, x: Propagated) -> Propagated:
        """Return both parts at points, [2, n] (local)."""
        i, j = (x.value[axis] - at for axis, at in enumerate(self.at))
        (a, b), (c, d) = self.real, self.imaginary
        z = tf.complex(a * i + b * j, c * i + d * j)
        z = tf.where(tf.abs(z) < _CLOSEST, tf.constant(_CLOSEST, z.dtype), z)
        order = x.carried.order if x.first else 0
        of_order = self._derivatives(tf.exp, tf.math.log(z), order)

        def part(operator: Operator) -> Any:
            factor = sum(c * self._slope(axes) for axes, c in operator)
            if factor == 0.0:
                return None
            value = factor * of_order[order_of(operator)]
            return tf.stack([tf.math.real(value), tf.math.imag(value)])

        first = tuple(part((((axis,), 1.0),)) for axis in range(len(x.first)))
        operators = tuple(map(part, x.carried.operators))
        return Propagated(part((((), 1.0),)), first, operators, x.carried)
