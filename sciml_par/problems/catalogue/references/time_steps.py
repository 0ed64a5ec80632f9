"""Stiff equations in time by exponential Runge–Kutta steps of the order 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CONTOUR = 32  # points on a circle around each eigenvalue


def etdrk4(
    rates: Array, nonlinear: Callable[[Array], Array], start: Array, end: float, steps: int
) -> Array:
    """Return the solution of v′ = Λ v + N(v) at equidistant times: [steps + 1, k] (local).

    Exponential time differencing (Cox and Matthews 2002), with coefficients by contour integrals
    (Kassam and Trefethen 2005, SIAM J. Sci. Comput. 26, 1214–1233).

    Parameters
    ----------
    rates : the diagonal of Λ, [k].
    nonlinear : N, [k] -> [k].
    start : v(0), [k].
    end : the last time.
    steps : how many, of equal length.
    """
    h = end / steps
    whole, half = np.exp(h * rates), np.exp(h * rates / 2)
    circle = np.exp(2j * np.pi * (np.arange(_CONTOUR) + 0.5) / _CONTOUR)
    z = h * rates[:, None] + circle
    real = not np.iscomplexobj(rates)

    def mean(values: Array) -> Array:
        found = values.mean(axis=1)
        return found.real if real else found

    q = h * mean((np.exp(z / 2) - 1) / z)
    f1 = h * mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3)
    f2 = h * mean((2 + z + np.exp(z) * (z - 2)) / z**3)
    f3 = h * mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3)
    v, found = start, [start]
    for _ in range(steps):
        n0 = nonlinear(v)
        a = half * v + q * n0
        na = nonlinear(a)
        b = half * v + q * na
        nb = nonlinear(b)
        nc = nonlinear(half * a + q * (2 * nb - n0))
        v = whole * v + f1 * n0 + 2 * f2 * (na + nb) + f3 * nc
        found.append(v)
    return np.array(found)
