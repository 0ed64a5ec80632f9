"""The steady flow in the unit square under a lid with a smooth velocity."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from references.spectral import chebyshev_points, differentiation_matrix, interpolation_matrix

FloatArray = npt.NDArray[np.float64]

_MOST_STEPS = 30


class _Operators(NamedTuple):
    """Values and derivatives at the inner points, one axis: maps from q: [n − 1] to [n + 1].

    Attributes: of w = (1 − s²)² q / (1 − s²), its first, second, third and fourth derivative.
    """

    value: FloatArray
    first: FloatArray
    second: FloatArray
    third: FloatArray
    fourth: FloatArray


def _clamped(s: FloatArray) -> _Operators:
    """Return derivatives by s of w = (1 − s²) q, with q zero at both ends, from w inside.

    So w and w′ are zero at the ends (Trefethen 2000, Spectral Methods in MATLAB, chapter 14).
    """
    d = differentiation_matrix(s)
    inner = slice(1, -1)
    hump = 1 - s**2
    to_q = np.zeros((len(s), len(s) - 2))
    to_q[inner] = np.diag(1 / hump[inner])
    q = [np.linalg.matrix_power(d, k) @ to_q for k in range(5)]
    # Leibniz: the second derivative of 1 − s² is −2, and the third is zero.
    derivatives = [
        hump[:, None] * q[k]
        - 2 * k * s[:, None] * (q[k - 1] if k else 0)
        - k * (k - 1) * (q[k - 2] if k > 1 else 0)
        for k in range(5)
    ]
    return _Operators(*derivatives)


@cache
def solution(
    reynolds: float, *, n: int = 32, steepness: int = 1
) -> Callable[[FloatArray], FloatArray]:
    """Return u, v and p of the steady Navier–Stokes equations, as x: [k, 2] -> [k, 3] (local).

    The stream function ψ obeys ψ_y Δψ_x − ψ_x Δψ_y = Δ²ψ/Re. Chebyshev collocation with the
    conditions on ψ and its slopes built in, Newton's method from ψ of the lid alone; p by
    integration of the momentum equations, zero at (½, 0). The polynomials have the degree n. The
    lid's velocity is (1 − s^{2m})² with s = 2x − 1 and m = `steepness`: 16 x² (1 − x)² for m = 1,
    and near to 1 for large m. Raises ArithmeticError if Newton's method finds no solution.
    """
    s = chebyshev_points(n)
    stream = _stream_function(reynolds, s, steepness)
    d = 2 * differentiation_matrix(s)  # by x = (s + 1)/2
    u, v = stream @ d.T, -d @ stream
    fields = [u, v, _pressure(u, v, d, s, reynolds)]

    def at(x: FloatArray) -> FloatArray:
        along, up = (interpolation_matrix(s, 2 * x[:, i] - 1) for i in (0, 1))
        values = [np.sum((along @ field) * up, axis=1) for field in fields]
        return np.stack(values, axis=1)

    return at


def _stream_function(reynolds: float, s: FloatArray, steepness: int) -> FloatArray:
    """Compute ψ at all points, [n + 1, n + 1], the first axis being x."""
    n, inner = len(s) - 1, slice(1, -1)
    operators = [2.0**k * each[inner] for k, each in enumerate(_clamped(s))]
    value, first, second, third, fourth = operators
    # ψ of the lid: g(x) h(y), with h = 0 at both ends, h′ = 0 at the lower and 1 at the upper one.
    lid = (1 - s ** (2 * steepness)) ** 2
    d = 2 * differentiation_matrix(s)
    rise = (s + 1) ** 2 * (s - 1) / 8
    g = [(np.linalg.matrix_power(d, k) @ lid)[inner] for k in range(5)]
    h = [(np.linalg.matrix_power(d, k) @ rise)[inner] for k in range(5)]
    lift = {(i, j): np.outer(g[i], h[j]) for i in range(5) for j in range(5)}
    maps = [value, first, second, third, fourth]

    def derivative(w: FloatArray, i: int, j: int) -> FloatArray:
        return np.asarray(maps[i] @ w @ maps[j].T + lift[i, j])

    def product(i: int, j: int) -> FloatArray:
        return np.asarray(np.kron(maps[i], maps[j]), np.float64)

    diffusion = (product(4, 0) + 2 * product(2, 2) + product(0, 4)) / reynolds
    spin_x, spin_y = product(3, 0) + product(1, 2), product(2, 1) + product(0, 3)
    to_x, to_y = product(1, 0), product(0, 1)
    w = np.zeros((n - 1, n - 1))
    for _ in range(_MOST_STEPS):
        px, py = derivative(w, 1, 0), derivative(w, 0, 1)
        vx = derivative(w, 3, 0) + derivative(w, 1, 2)
        vy = derivative(w, 2, 1) + derivative(w, 0, 3)
        biharmonic = derivative(w, 4, 0) + 2 * derivative(w, 2, 2) + derivative(w, 0, 4)
        residual = py * vx - px * vy - biharmonic / reynolds
        jacobian = (
            py.reshape(-1, 1) * spin_x
            + vx.reshape(-1, 1) * to_y
            - px.reshape(-1, 1) * spin_y
            - vy.reshape(-1, 1) * to_x
            - diffusion
        )
        change = np.linalg.solve(jacobian, residual.ravel()).reshape(w.shape)
        w = w - change
        if np.max(np.abs(change)) < 1e-11:
            whole = np.outer(lid, rise)
            whole[inner, inner] += w
            return whole
    raise ArithmeticError(f"cavity: Newton's method found no flow for Re = {reynolds:g}, n = {n}")


def _pressure(
    u: FloatArray, v: FloatArray, d: FloatArray, s: FloatArray, reynolds: float
) -> FloatArray:
    """Compute p with ∇p = Δu/Re − u·∇u: along the lower wall first, then up; zero at (½, 0)."""

    def force(w: FloatArray) -> FloatArray:
        slope_x, slope_y = d @ w, w @ d.T
        return (d @ slope_x + slope_y @ d.T) / reynolds - u * slope_x - v * slope_y

    # The integral from the first point on: the inverse of d without its first row and column.
    integral = np.zeros_like(d)
    integral[1:, 1:] = np.linalg.inv(d[1:, 1:])
    along, up = integral @ force(u)[:, :1], force(v) @ integral.T
    p = along + up
    middle = interpolation_matrix(s, np.zeros(1)) @ p[:, :1]
    return np.asarray(p - middle)
