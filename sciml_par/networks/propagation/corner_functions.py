"""Functions that are singular at a corner of the domain, as solutions of elliptic equations are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Axes
from sciml_par.networks.propagation.singular_function import (
    Arithmetic,
    Derivative,
    FloatArray,
    SingularFunction,
)

_NEAR = 0.5
"""Of the size of a window, its distance from a corner or hole whose functions it has."""
_CLOSEST = 1e-16
"""The least |ζ|, since derivatives have no value at the corner itself."""


@dataclass(frozen=True)
class PlaneFunction(SingularFunction):
    r"""Functions of ζ = w · (x − c) with w complex, x the first two coordinates.

    Attributes
    ----------
    at : c, in the units of x.
    real, imaginary : w, in the inverse units of x.
    """

    at: tuple[float, float]
    real: tuple[float, float]
    imaginary: tuple[float, float]

    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        a, b, at = low[:, :2], high[:, :2], np.array(self.at)
        beyond = np.maximum(np.maximum(a - at, at - b), 0.0)
        return np.asarray(np.all(beyond <= _NEAR * (b - a), axis=1))

    @property
    def _w(self) -> npt.NDArray[np.complex128]:
        return np.array(self.real) + 1j * np.array(self.imaginary)

    def _zeta(self, x: Sequence[Any], of: Arithmetic) -> Any:
        """Return ζ, but not 0, at which there are no derivatives."""
        i, j = (x[axis] - at for axis, at in enumerate(self.at))
        (a, b), (c, d) = self.real, self.imaginary
        z = of.of_parts(a * i + b * j, c * i + d * j)
        return of.where(abs(z) < _CLOSEST, _CLOSEST, z)

    def _by_axes(self, derivatives: Sequence[Any], of: Arithmetic) -> Derivative:
        """Return the real and the imaginary part of derivatives by ζ as those by axes."""
        w = dict(enumerate(self._w.tolist()))

        def derivative(axes: Axes) -> Any:
            slope = math.prod((w.get(axis, 0.0) for axis in axes), start=complex(1.0))
            return of.parts_of(slope * derivatives[len(axes)])[: self.count] if slope else None

        return derivative


@dataclass(frozen=True)
class CornerFunction(PlaneFunction):
    r"""The real and the imaginary part of ζ^λ or ζ^λ log ζ, ζ = w · (x − c) with w complex.

    x are the first two coordinates. Solutions of Σ a_ij ∂²u/∂x_i∂x_j = f behave so at a corner,
    where Σ a_ij w_i w_j = 0. In the plane of ζ it has an angle ω; then λ = kπ/ω, or (k − ½) π/ω
    between a given value and a given flux, with the logarithm where λ is a whole number (Grisvard,
    Elliptic Problems in Nonsmooth Domains, 1985, §4.4). The functions jump across the ray ζ < 0.

    Attributes
    ----------
    power : λ, dimensionless.
    logarithm : whether there is one.
    degree : of polynomials in the plane that the functions are multiplied by.
    reach : the distance |ζ| at which the ray of the jump meets the domain again, and from which on
        the functions are not used.
    """

    power: float
    logarithm: bool
    degree: int
    reach: float = math.inf

    @property
    def label(self) -> tuple[Any, ...]:
        return *self.at, self.power

    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        in_plane, total = exponents[:, :2].sum(axis=1), exponents.sum(axis=1)
        highest = total.max(initial=0) - math.floor(self.power)
        return np.flatnonzero((in_plane <= self.degree) & (total <= highest))

    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        corners = product(*zip(low[:, :2].T, high[:, :2].T, strict=True))
        zeta = [(np.stack(each, axis=1) - np.array(self.at)) @ self._w for each in corners]
        farthest = np.max(np.abs(zeta), axis=0)
        return np.asarray(super().near(low, high) & (farthest <= self.reach))

    def _derivatives(self, x: Sequence[Any], order: int, of: Arithmetic) -> Derivative:
        log = of.log(self._zeta(x, of))
        # f^(n) = ζ^(λ − n) (p log ζ + q)
        p, q, found = float(self.logarithm), float(not self.logarithm), []
        for power in (self.power - n for n in range(order + 1)):
            found.append(of.exp(power * log) * (p * log + q))
            p, q = power * p, power * q + p
        return self._by_axes(found, of)
