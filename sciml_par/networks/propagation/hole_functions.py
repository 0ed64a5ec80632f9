"""Functions that are singular in a hole of the domain, as solutions of elliptic equations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.corner_functions import PlaneFunction
from sciml_par.networks.propagation.singular_function import Arithmetic, Derivative

_LEAST = 0.5
"""Of |ω|, which is 1 on the hole or more, for values in its middle that are finite."""


@dataclass(frozen=True)
class HoleFunction(PlaneFunction):
    r"""log |ω|, or the real and the imaginary part of ω^−n; ω = ζ + √(ζ² − f²), ζ = w · (x − c).

    x are the first two coordinates, and c lies in a hole. On ellipses with the foci ±f in the plane
    of ζ, circles if f = 0, |ω| is constant. Solutions of Laplace's equation around a hole are sums
    of these and of one without a hole (Axler 1986, Amer. Math. Monthly 93, 246), and times the
    conjugate of ζ they are parts of those of other equations, as in elasticity (Muskhelishvili,
    Some Basic Problems of the Mathematical Theory of Elasticity, 1953, §35).

    Attributes
    ----------
    focus : the real and the imaginary part of f², dimensionless.
    order : n; 0 of the logarithm.
    degree : of polynomials in the plane that the functions are multiplied by.
    """

    focus: tuple[float, float]
    order: int
    degree: int

    @property
    def count(self) -> int:
        return 2 if self.order else 1

    @property
    def label(self) -> tuple[Any, ...]:
        return *self.at, -self.order

    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # ω^−n times ζ is a sum of such functions, so that one coordinate alone multiplies them.
        single = (exponents[:, 1] == 0) | (self.order == 0)
        in_plane, total = exponents[:, :2].sum(axis=1), exponents.sum(axis=1)
        highest = total.max(initial=0) - self.order
        return np.flatnonzero(single & (in_plane <= self.degree) & (total <= highest))

    def _derivatives(self, x: Sequence[Any], order: int, of: Arithmetic) -> Derivative:
        z, square = self._zeta(x, of), complex(*self.focus)
        root = z * of.exp(0.5 * of.log(1.0 - square / z**2))
        w, n = z + root, self.order
        log = of.log(of.where(abs(w) < _LEAST, _LEAST, w))
        value = of.exp(-n * log) if n else log
        found = [value, -n * value / root if n else 1.0 / root]
        # (ζ² − f²) y″ + ζ y′ = n² y, as of Chebyshev's polynomials.
        for k in range(order - 1):
            right = (n**2 - k**2) * found[k] - (2 * k + 1) * z * found[k + 1]
            found.append(right / (z**2 - square))
        return self._by_axes(found, of)
