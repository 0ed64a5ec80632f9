"""Chebyshev points, differentiation and interpolation; and interpolation in time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_SPLINE_DEGREE = 7


def chebyshev_points(n: int) -> FloatArray:
    """cos(πj/n), j = n … 0, from −1 to 1: [n + 1]."""
    return np.cos(np.pi * np.arange(n, -1, -1) / n)


def differentiation_matrix(x: FloatArray) -> FloatArray:
    """D with D u = u′ for the values u of polynomials at Chebyshev points x: [n + 1, n + 1].

    Trefethen (2000), Spectral Methods in MATLAB, chapter 6, with the sums of rows made zero.
    """
    n = len(x) - 1
    c = np.r_[2, np.ones(n - 1), 2] * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x[None, :] + np.eye(n + 1))
    return d - np.diag(d.sum(axis=1))


def interpolation_matrix(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """P with P u(nodes) = u(x) for polynomials, by the barycentric formula: [len(x), n + 1].

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
