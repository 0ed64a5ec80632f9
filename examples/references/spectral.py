"""Chebyshev polynomials, exponential Runge–Kutta steps and trajectories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


_SPLINE_DEGREE = 7


def chebyshev_points(n: int) -> FloatArray:
    """Compute cos(πj/n), j = n … 0, from −1 to 1: [n + 1]."""
    return np.cos(np.pi * np.arange(n, -1, -1) / n)


def differentiation_matrix(x: FloatArray) -> FloatArray:
    """Return D with D u = u′ for the values u of polynomials at Chebyshev points x: [n + 1, n + 1].

    Trefethen (2000), Spectral Methods in MATLAB, chapter 6, with the sums of rows made zero.
    """
    n = len(x) - 1
    c = np.r_[2, np.ones(n - 1), 2] * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x[None, :] + np.eye(n + 1))
    return d - np.diag(d.sum(axis=1))


def interpolation_matrix(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """Return P with P u(nodes) = u(x) for polynomials, by the barycentric formula: [len(x), n + 1].

    Berrut and Trefethen (2004), SIAM Review 46, 501–517; `nodes` are Chebyshev points.
    """
    n = len(nodes) - 1
    weights = (-1.0) ** np.arange(n + 1) * np.r_[0.5, np.ones(n - 1), 0.5]
    apart = x[:, None] - nodes[None, :]
    hit = apart == 0
    terms = weights / np.where(hit, 1.0, apart)
    rows = terms / terms.sum(axis=1, keepdims=True)
    return np.where(hit.any(axis=1, keepdims=True), hit.astype(np.float64), rows)


def in_time(times: FloatArray, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the spline of degree 7 through values [T, k] at times [T]: t: [n] -> [n, k]."""
    from scipy.interpolate import make_interp_spline  # its import takes long

    spline = make_interp_spline(times, values, k=_SPLINE_DEGREE)
    return lambda t: np.asarray(spline(t))


Array = npt.NDArray[Any]

_CONTOUR = 32  # points on a circle around each eigenvalue


def etdrk4(
    rates: Array, nonlinear: Callable[[Array], Array], start: Array, end: float, steps: int
) -> Array:
    """Return the solution of v′ = Λ v + N(v) at equidistant times: [steps + 1, k] (local).

    Exponential time differencing (Cox and Matthews 2002), with coefficients by contour integrals
    (Kassam and Trefethen 2005, SIAM J. Sci. Comput. 26, 1214–1233). Λ is diagonal: rates [k].
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


def trajectory(
    velocity: Callable[[FloatArray], FloatArray],
    start: Sequence[float],
    end: float,
    *,
    tolerance: float = 1e-12,
) -> Callable[[FloatArray], FloatArray]:
    """Return the solution of w′ = f(w) from w(0) on [0, end], as t: [n, 1] -> w: [n, k] (local).

    By the method of Dormand and Prince of order 8 with an interpolant of order 7 (Hairer, Nørsett
    and Wanner 1993, section II.5), computed at the first call. For Lotka–Volterra and Lorenz of the
    catalogue, the relative error is about 1e-10.
    """

    @cache
    def solved() -> Callable[[FloatArray], FloatArray]:
        from scipy.integrate import solve_ivp  # its import takes long

        found = solve_ivp(
            lambda t, w: velocity(w),
            (0.0, end),
            np.array(start),
            method="DOP853",
            rtol=tolerance,
            atol=tolerance,
            dense_output=True,
            max_step=end / 400,
        )
        interpolant: Callable[[FloatArray], FloatArray] = found.sol
        return interpolant

    return lambda t: np.asarray(solved()(t[:, 0])).T
