"""Exact or very accurate solutions of the problems of `coverage.py`, for many coefficients at once.

Each function maps coefficients [B, p] and points [k, d] to the solution [B, k, m].
"""

from __future__ import annotations

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


VISCOSITY = 0.1
FORCE = 2 * np.pi**2 * VISCOSITY
"""Amplitude of the force that drives the flow; it makes the flow's amplitude 1."""


def flow(c: FloatArray, x: FloatArray) -> FloatArray:
    """u = A sin πx cos πy, v = −A cos πx sin πy with A = F/(2π²ν) and c = (ν,).

    A steady solution of the Navier–Stokes equations in the unit square with walls without friction,
    driven by the force F (sin πx cos πy, −cos πx sin πy), with p = A² (cos 2πx + cos 2πy)/4.
    """
    return (FORCE / (2 * np.pi**2 * c[:, :1]))[..., None] * force(x) / FORCE


def force(x: Any) -> Any:
    """Return F (sin πx cos πy, −cos πx sin πy): [k, 2] -> [k, 2]."""
    (sx, sy), (cx, cy) = np.sin(np.pi * x[:, :2]).T, np.cos(np.pi * x[:, :2]).T
    return FORCE * np.stack([sx * cy, -cx * sy], axis=1)


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
    """0.01 u″ + k tanh u = f with c = (k, u(−0.7), u(0.7)), by collocation and Newton's method.

    Infinite for coefficients without a solution.
    """
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
        found = np.abs(change).max(axis=1) < 1e-11
        if found.all():
            break
    at = chebyshev.chebvander(x[:, 0] / HALF_LENGTH, n - 1) @ to_series
    return np.where(found[:, None], u @ at.T, np.inf)[..., None]
