"""Exact or very accurate solutions of the problems of `coverage.py`, for many coefficients at once.

Each function maps coefficients [B, p] and points [k, d] to the solution [B, k, m].
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev, legendre

FloatArray = npt.NDArray[np.float64]


def diffusion(c: FloatArray, x: FloatArray) -> FloatArray:
    """u = e^{−Dπ²t} sin πx with c = (D,)."""
    decay = np.exp(-(np.pi**2) * c[:, :1] * x[None, :, 1])
    return (decay * np.sin(np.pi * x[None, :, 0]))[..., None]


LAST_TIME, TIME_STEPS = 10.0, 2000


def lotka_volterra(c: FloatArray, x: FloatArray) -> FloatArray:
    """x′ = α x − β x y, y′ = δ x y − γ y with c = (α, β, δ, γ, x(0), y(0)), by Runge–Kutta.

    The error of 2,000 steps of fourth order is below 1e-9. The times must be some of the steps'.
    """
    numbers = np.round(x[:, 0] / LAST_TIME * TIME_STEPS).astype(int)
    if np.abs(numbers * LAST_TIME / TIME_STEPS - x[:, 0]).max() > 1e-9:
        raise ValueError("expected times that are multiples of the step")
    h, state = LAST_TIME / TIME_STEPS, np.stack([c[:, 4], c[:, 5]])
    found = {0: state}
    for number in range(1, TIME_STEPS + 1):
        k1 = _velocity(c, state)
        k2 = _velocity(c, state + h / 2 * k1)
        k3 = _velocity(c, state + h / 2 * k2)
        k4 = _velocity(c, state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found[number] = state
    return np.stack([found[number].T for number in numbers], axis=1)


def _velocity(c: FloatArray, state: FloatArray) -> FloatArray:
    x, y = state
    meetings = x * y
    return np.stack([c[:, 0] * x - c[:, 1] * meetings, c[:, 2] * meetings - c[:, 3] * y])


SOURCE = 10.0


def conductivity(c: FloatArray, x: FloatArray) -> FloatArray:
    """k = a + b sin 2πx + d cos 2πx with c = (a, b, d): [B, p], [k, 1] -> [B, k]."""
    angle = 2 * np.pi * x[None, :, 0]
    return c[:, :1] + c[:, 1:2] * np.sin(angle) + c[:, 2:3] * np.cos(angle)


def conduction(c: FloatArray, x: FloatArray) -> FloatArray:
    """−(k u′)′ = f on (0, 1), u(0) = u(1) = 0: u = ∫ (C − f s)/k ds, by Gauss–Legendre."""
    nodes, weights = legendre.leggauss(32)

    def integrals(end: FloatArray) -> tuple[FloatArray, FloatArray]:
        s = end[:, None] * (nodes + 1) / 2
        k = conductivity(c, s.reshape(-1, 1)).reshape(len(c), *s.shape)
        of = weights * end[:, None] / 2
        return np.sum(of / k, axis=2), np.sum(of * SOURCE * s / k, axis=2)

    (resistance, load), (whole, all_load) = integrals(x[:, 0]), integrals(np.ones(1))
    positive = c[:, :1] > np.hypot(c[:, 1:2], c[:, 2:3])
    load = np.where(positive, load, np.inf)  # no solution where k is zero somewhere
    return (all_load / whole * resistance - load)[..., None]


REYNOLDS = 10.0
CORNERS = np.array([[-0.5, -0.5], [0.5, 0.5]])
"""Of the domain of the flow."""


def kovasznay(x: FloatArray) -> FloatArray:
    """u, v and p of Kovasznay's flow at Re = 10: [k, 2] -> [k, 3]."""
    decay = REYNOLDS / 2 - np.sqrt(REYNOLDS**2 / 4 + 4 * np.pi**2)
    fading, angle = np.exp(decay * x[:, 0]), 2 * np.pi * x[:, 1]
    v = decay / (2 * np.pi) * fading * np.sin(angle)
    return np.stack([1 - fading * np.cos(angle), v, (1 - fading**2) / 2], axis=1)


_VISCOSITIES = (0.3 / REYNOLDS, 2.5 / REYNOLDS)


def flow(c: FloatArray, x: FloatArray) -> FloatArray:
    """u and v with the boundary values of Kovasznay's flow and another viscosity, c = (ν,).

    Interpolated between Chebyshev points of log ν, and constant outside of `_VISCOSITIES`.
    """
    lower, upper = np.log(_VISCOSITIES)
    s = np.clip((2 * np.log(c[:, 0]) - lower - upper) / (upper - lower), -1, 1)
    degree = 20
    nodes = chebyshev.chebpts1(degree)
    values = np.stack(
        [_flow_at(np.exp((lower + upper + (upper - lower) * n) / 2), x) for n in nodes]
    )
    to_series = np.linalg.inv(chebyshev.chebvander(nodes, degree - 1))
    weights = chebyshev.chebvander(s, degree - 1) @ to_series
    return np.tensordot(weights, values, 1)


def _flow_at(viscosity: float, x: FloatArray) -> FloatArray:
    """Return u and v of one viscosity at points: [k, 2]."""
    scaled = 2 * (x - CORNERS[0]) / (CORNERS[1] - CORNERS[0]) - 1
    n = _MODES
    (ax, bx), (ay, by) = (_clamped(n, scaled[:, i], derivatives=1) for i in (0, 1))
    q, (sx, sy) = _stream_function(viscosity), 2 / (CORNERS[1] - CORNERS[0])
    change_u = np.sum((ax @ q) * by, axis=1) * sy
    change_v = -np.sum((bx @ q) * ay, axis=1) * sx
    return kovasznay(x)[:, :2] + np.stack([change_u, change_v], axis=1)


_MODES = 18


def _clamped(n: int, s: FloatArray, derivatives: int = 4) -> list[FloatArray]:
    """Return (1 − s²)² T_k(s), which is clamped at ±1, and its derivatives: [len(s), n] each."""
    hump = chebyshev.chebpow([0.5, 0.0, -0.5], 2)
    series = [chebyshev.chebmul(hump, np.eye(n)[k]) for k in range(n)]
    return [
        np.stack([chebyshev.chebval(s, chebyshev.chebder(each, order)) for each in series], axis=1)
        for order in range(derivatives + 1)
    ]


@cache
def _stream_function(viscosity: float) -> FloatArray:
    """Return the series q of the change ψ of Kovasznay's stream function: [n, n].

    ψ_y ω_x − ψ_x ω_y = ν Δω with ω = Δψ, by collocation and Newton's method.
    """
    n = _MODES
    nodes = chebyshev.chebpts1(n)
    sx, sy = 2 / (CORNERS[1] - CORNERS[0])
    line = _clamped(n, nodes)
    at = [[np.kron(a * sx**i, b * sy**j) for j, b in enumerate(line)] for i, a in enumerate(line)]
    lap = [at[2][0] + at[0][2], at[3][0] + at[1][2], at[2][1] + at[0][3]]
    double = at[4][0] + 2 * at[2][2] + at[0][4]
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=2).reshape(-1, 2)
    base = _derivatives_of_kovasznay(CORNERS[0] + (grid + 1) / 2 * (CORNERS[1] - CORNERS[0]))
    q = np.zeros(n * n)
    for _ in range(30):
        px, py, wx, wy, dw = (
            m @ q + b
            for m, b in zip((at[1][0], at[0][1], lap[1], lap[2], double), base, strict=True)
        )
        residual = py * wx - px * wy - viscosity * dw
        jacobian = (
            wx[:, None] * at[0][1] + py[:, None] * lap[1] - wy[:, None] * at[1][0]
            - px[:, None] * lap[2] - viscosity * double
        )  # fmt: skip
        change = np.linalg.solve(jacobian, residual)
        q = q - change
        if np.abs(change).max() < 1e-11:
            return q.reshape(n, n)
    raise ArithmeticError(f"Newton's method found no flow for the viscosity {viscosity:g}")


def _derivatives_of_kovasznay(x: FloatArray) -> list[FloatArray]:
    """Return ψ_x, ψ_y, ω_x, ω_y and Δω of its stream function ψ = y − e^{λx} sin(2πy)/2π."""
    decay = REYNOLDS / 2 - np.sqrt(REYNOLDS**2 / 4 + 4 * np.pi**2)
    factor = decay**2 - 4 * np.pi**2  # ω = factor · (ψ − y)
    fading, angle = np.exp(decay * x[:, 0]), 2 * np.pi * x[:, 1]
    wave, slope = -fading * np.sin(angle) / (2 * np.pi), -fading * np.cos(angle)
    return [decay * wave, 1 + slope, factor * decay * wave, factor * slope, factor**2 * wave]


REACTION, DIFFUSIVITY, HALF_LENGTH = 0.7, 0.01, 0.7


def wave(x: FloatArray) -> FloatArray:
    """sin³ 6x, the solution at the true coefficients: [k, 1] -> [k, 1]."""
    return np.sin(6 * x[:, :1]) ** 3


def forcing(x: Any) -> Any:
    """Return 0.01 u″ + k tanh u of this solution: [k, 1] -> [k, 1]."""
    sine, cosine = np.sin(6 * x[:, :1]), np.cos(6 * x[:, :1])
    second = 36 * (6 * sine * cosine**2 - 3 * sine**3)
    return DIFFUSIVITY * second + REACTION * np.tanh(sine**3)


def reaction(c: FloatArray, x: FloatArray) -> FloatArray:
    """0.01 u″ + k tanh u = f with c = (k, u(−0.7), u(0.7)), by collocation and Newton's method."""
    n = 56
    nodes = chebyshev.chebpts2(n)
    values = chebyshev.chebvander(nodes, n - 1)
    second = np.stack(
        [chebyshev.chebval(nodes, chebyshev.chebder(e, 2)) for e in np.eye(n)], axis=1
    )
    to_series = np.linalg.inv(values)
    operator = DIFFUSIVITY / HALF_LENGTH**2 * second @ to_series
    operator[[0, -1]] = np.eye(n)[[0, -1]]
    inside = np.r_[0, np.ones(n - 2), 0]
    right = np.tile(forcing(HALF_LENGTH * nodes[:, None])[:, 0], (len(c), 1))
    right[:, [0, -1]] = c[:, 1:3]
    u = np.tile(wave(HALF_LENGTH * nodes[:, None])[:, 0], (len(c), 1))
    for _ in range(30):
        k = c[:, :1] * inside
        residual = u @ operator.T + k * np.tanh(u) - right
        matrices = operator + np.eye(n) * (k * (1 - np.tanh(u) ** 2))[:, None, :]
        change = np.linalg.solve(matrices, residual[..., None])[..., 0]
        u = u - change
        if np.abs(change).max() < 1e-11:
            break
    else:
        raise ArithmeticError("Newton's method found no solution of the reaction")
    at = chebyshev.chebvander(x[:, 0] / HALF_LENGTH, n - 1) @ to_series
    return (u @ at.T)[..., None]
