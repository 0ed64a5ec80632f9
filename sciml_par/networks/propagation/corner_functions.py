"""Functions that are singular at a corner of the domain, as solutions of elliptic equations are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Axes
from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.propagation import Propagated

FloatArray = npt.NDArray[np.float64]

_NEAR = 0.5
"""Of the size of a window, its distance from a corner whose functions it has."""
_CLOSEST = 1e-16
"""The least |ζ|, since derivatives have no value at the corner itself."""


@dataclass(frozen=True)
class CornerFunction:
    r"""The real and the imaginary part of ζ^λ or ζ^λ log ζ, ζ = e^{−iα} (x − c) / L in a plane.

    Solutions of Δu = f behave so at a corner with the angle ω, where λ = kπ/ω, or (k − ½) π/ω
    between a given value and a given flux, with the logarithm where λ is a whole number (Grisvard,
    Elliptic Problems in Nonsmooth Domains, 1985, §4.4). The functions jump across the ray from the
    corner in the direction −α.

    Attributes
    ----------
    at : the corner c, in the units of x.
    direction : α, radians from the first axis, of the ray that halves the angle of the domain.
    size : L, in the units of x.
    power : λ, dimensionless.
    logarithm : whether there is one.
    degree : of polynomials in the plane that the functions are multiplied by.
    reach : the distance from the corner, in the units of x, at which the ray of the jump meets the
        domain again, and from which on the functions are not used.
    axes : of the plane.
    """

    at: tuple[float, float]
    direction: float
    size: float
    power: float
    logarithm: bool
    degree: int
    reach: float = math.inf
    axes: tuple[int, int] = (0, 1)

    @classmethod
    def of(cls, config: dict[str, Any]) -> CornerFunction:
        """Return the function of its attributes, as a file has them (local)."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in config.items()})

    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the products e: [M, d] that multiply the functions (local)."""
        in_plane, total = exponents[:, self.axes].sum(axis=1), exponents.sum(axis=1)
        highest = total.max(initial=0) - math.floor(self.power)
        return np.flatnonzero((in_plane <= self.degree) & (total <= highest))

    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        """Return in which boxes [K, d] near to the corner the functions are used (local)."""
        a, b, at = low[:, self.axes], high[:, self.axes], np.array(self.at)
        beyond = np.maximum(np.maximum(a - at, at - b), 0.0)
        farthest = np.linalg.norm(np.maximum(np.abs(a - at), np.abs(b - at)), axis=1)
        near = np.all(beyond <= _NEAR * (b - a), axis=1)
        return np.asarray(near & (farthest <= self.reach))

    def _factors(self, order: int) -> list[tuple[float, float]]:
        """Return a, b of f^(n) = ζ^(λ − n) (a log ζ + b)."""
        a, b = float(self.logarithm), float(not self.logarithm)
        found = [(a, b)]
        for n in range(order):
            a, b = (self.power - n) * a, (self.power - n) * b + a
            found.append((a, b))
        return found

    def derivatives(self, x: FloatArray, order: int) -> list[npt.NDArray[np.complex128]]:
        """Return d^n f/dx^n along the first axis at x: [N, d], n = 0 … order, [N] each (local)."""
        turn = np.exp(-1j * self.direction) / self.size
        z = turn * ((x[:, self.axes[0]] - self.at[0]) + 1j * (x[:, self.axes[1]] - self.at[1]))
        z = np.where(np.abs(z) < _CLOSEST, _CLOSEST, z)
        log = np.log(z)
        return [
            turn**n * np.exp((self.power - n) * log) * (a * log + b)
            for n, (a, b) in enumerate(self._factors(order))
        ]

    def parts(self, x: FloatArray, asked: Sequence[Axes]) -> dict[Axes, FloatArray]:
        """Return ∂^α of both parts at x: [N, d] for the axes asked for, [2, N] each (local)."""
        of_order = self.derivatives(x, max(map(len, asked), default=0))
        found = {}
        for axes in asked:
            inside = all(axis in self.axes for axis in axes)
            value = of_order[len(axes)] * 1j ** axes.count(self.axes[1])
            found[axes] = np.stack([value.real, value.imag]) * float(inside)
        return found

    def propagate(self, x: Propagated) -> Propagated:
        """Return both parts at points, [2, n] (local)."""
        i, j = (x.value[axis] for axis in self.axes)
        turn = complex(np.exp(-1j * self.direction) / self.size)
        z = turn * tf.complex(i - self.at[0], j - self.at[1])
        z = tf.where(tf.abs(z) < _CLOSEST, tf.constant(_CLOSEST, z.dtype), z)
        log = tf.math.log(z)
        of_order = [
            turn**n * tf.exp((self.power - n) * log) * (a * log + b)
            for n, (a, b) in enumerate(self._factors(x.carried.order if x.first else 0))
        ]

        def part(axes: Axes) -> Any:
            if not all(axis in self.axes for axis in axes):
                return None
            value = of_order[len(axes)] * 1j ** axes.count(self.axes[1])
            return tf.stack([tf.math.real(value), tf.math.imag(value)])

        def of_operator(operator: Any) -> Any:
            terms = [(part(axes), factor) for axes, factor in operator]
            kept = [factor * of_axes for of_axes, factor in terms if of_axes is not None]
            return tf.add_n(kept) if kept else None

        first = tuple(part((axis,)) for axis in range(len(x.first)))
        operators = tuple(map(of_operator, x.carried.operators))
        return Propagated(part(()), first, operators, x.carried)
