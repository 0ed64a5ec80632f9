"""Nine problems with known solutions, next to those that `tolerance.py` has by name elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from sciml_par import problems as of
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Problem,
    Residual,
    Time,
    derivative,
    laplacian,
)

SQUARE = Box([0, 0], [1, 1])


def posed(domain: Any, equation: Any, exact: Any, *, data: Any = None, **more: Any) -> Problem:
    """Return a problem with the solution as boundary values, and at first in time."""
    conditions = [Dirichlet(exact)]
    if "t" in domain.names:
        conditions = [Dirichlet(exact, on=["left", "right"]), Initial(exact)]
    residual = equation if data is None else Residual(equation, data=data)
    return Problem(domain, residual, **{"conditions": conditions, "exact": exact, **more})


def boundary_layer() -> Problem:
    """0.01 u″ + u′ = 0 on (0, 1), a layer at x = 0."""
    return posed(
        Interval(0, 1),
        lambda u, x: 0.01 * derivative(u, x, 0, 0) + derivative(u, x, 0),
        lambda x: (1 - np.exp(-100 * x)) / (1 - np.exp(-100)),
    )


def front() -> Problem:
    """u_t + u u_x = 0.02 u_xx, a travelling front of width 0.08."""

    def equation(u: Any, x: Any) -> Any:
        change = derivative(u, x, "t") + u(x) * derivative(u, x, "x")
        return change - 0.02 * derivative(u, x, "x", "x")

    def exact(x: Any) -> Any:
        return 0.5 - 0.5 * np.tanh((x[:, :1] - 0.5 * x[:, 1:] - 0.25) / 0.08)

    return posed(Interval(0, 1) * Time(0, 1), equation, exact)


def stiff() -> Problem:
    """y′ = −50 (y − cos t), y(0) = 0: a fast transient and a slow solution."""
    a = 50.0

    def exact(t: Any) -> Any:
        slow = (a * a * np.cos(t) + a * np.sin(t)) / (1 + a * a)
        return slow - a * a / (1 + a * a) * np.exp(-a * t)

    def equation(y: Any, t: Any, c: Any) -> Any:
        return derivative(y, t, 0) + a * (y(t) - c)

    start = [Dirichlet(0.0, on="left")]
    return posed(Interval(0, 2), equation, exact, data=np.cos, conditions=start)


def inverse_decay() -> Problem:
    """u′ = −k u with unknown k = 3, from 20 exact observations."""
    t = np.linspace(0, 1, 20)[:, None]
    return posed(
        Interval(0, 1),
        lambda u, t, k: derivative(u, t, 0) + k * u(t),
        lambda t: np.exp(-3 * t),
        conditions=[of.Observations(t, np.exp(-3 * t))],
        unknowns={"k": of.Unknown(1.0, true=3.0)},
    )


def hole() -> Problem:
    """Δu + 4 u = f in a square with a hole; u = sin 2x cos 3y."""

    def u(x: Any) -> Any:
        return np.sin(2 * x[:, :1]) * np.cos(3 * x[:, 1:])

    domain = Box([-1, -1], [1, 1]) - of.Ball([0.2, 0.1], 0.4)
    data = lambda x: -9 * u(x)  # noqa: E731
    return posed(domain, lambda u, x, f: laplacian(u, x) + 4 * u(x) - f, u, data=data)


def five_dimensions() -> Problem:
    """Δu + u² = f in five dimensions; u = exp(−|x|²/2)."""

    def u(x: Any) -> Any:
        return np.exp(-np.sum(x**2, axis=1, keepdims=True) / 2)

    def f(x: Any) -> Any:
        return (np.sum(x**2, axis=1, keepdims=True) - 5) * u(x) + u(x) ** 2

    domain = Box([0] * 5, [1] * 5)
    return posed(domain, lambda u, x, f: laplacian(u, x) + u(x) ** 2 - f, u, data=f)


def long_time() -> Problem:
    """u_t = 0.01 u_xx over 100 units of time; u = exp(−0.01 π² t) sin πx."""

    def u(x: Any) -> Any:
        return np.exp(-0.01 * np.pi**2 * x[:, 1:]) * np.sin(np.pi * x[:, :1])

    conditions = [Dirichlet(0.0, on=["left", "right"]), Initial(u)]
    equation = lambda u, x: derivative(u, x, "t") - 0.01 * derivative(u, x, "x", "x")  # noqa: E731
    return posed(Interval(0, 1) * Time(0, 100), equation, u, conditions=conditions)


def plane_wave() -> Problem:
    """Δu + 100 u = 0 in the unit square, a plane wave."""

    def u(x: Any) -> Any:
        return np.sin(10 * (np.cos(0.7) * x[:, :1] + np.sin(0.7) * x[:, 1:]) + 0.3)

    return posed(SQUARE, lambda u, x: laplacian(u, x) + 100 * u(x), u)


def exponential() -> Problem:
    """Δu + eᵘ = f in the unit square (Bratu's nonlinearity); u = sin πx sin πy."""

    def u(x: Any) -> Any:
        return np.sin(np.pi * x[:, :1]) * np.sin(np.pi * x[:, 1:])

    data = lambda x: -2 * np.pi**2 * u(x) + np.exp(u(x))  # noqa: E731
    return posed(SQUARE, lambda u, x, f: laplacian(u, x) + tf.exp(u(x)) - f, u, data=data)


MADE = (
    boundary_layer, front, stiff, inverse_decay, hole, five_dimensions, long_time, plane_wave,
    exponential,
)  # fmt: skip
PROBLEMS: dict[str, Callable[[], Problem]] = {
    function.__name__.replace("_", "-"): function for function in MADE
}
