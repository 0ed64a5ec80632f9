"""Residuals that ask for u at other points than their own, or differentiate it by own tapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par import solve
from sciml_par.assembly import system
from sciml_par.networks import Polynomials
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Polygon,
    Problem,
    Time,
    derivative,
    integral_to,
    laplacian,
)

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=2, reason="two ranks show what more would"),
]
START = [Dirichlet(0.0, on="left")]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
Y, W = tf.constant((NODES[:, None] + 1) / 2), tf.constant(WEIGHTS[None] / 2)


def memory(u: Any, t: Any) -> Any:
    return derivative(u, t, 0) - 1 + integral_to(u, t, 0)


def of_caputo(u: Any, t: Any) -> Any:
    slope = integral_to(lambda s: derivative(u, s, 0), t, 0, power=-0.5)
    return slope / math.gamma(0.5) - 2 * t**1.5 / math.gamma(2.5)


def of_rows(u: Any, t: Any) -> Any:
    """The nodes of each point follow one another."""
    nodes = tf.reshape(t * tf.transpose(Y), [-1, 1])
    integral = tf.reduce_sum(tf.reshape(u(nodes), [-1, 20]) * W, axis=1, keepdims=True) * t
    return derivative(u, t, 0) - 1 + integral


def of_fredholm(u: Any, x: Any) -> Any:
    integral = tf.reduce_sum(W * tf.exp(x) * tf.transpose(u(Y)), axis=1, keepdims=True)
    return u(x) - integral / 2 - tf.sin(3 * x) + tf.exp(x) * (1 - math.cos(3)) / 6


def by_own_tapes(u: Any, x: Any) -> Any:
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            value = u(x)
        slope = first.gradient(value, x)
    return second.gradient(slope, x) + 9 * value


def late(u: Any, t: Any) -> Any:
    before = u(tf.maximum(t - 1, 0.0))
    return derivative(u, t, 0) + tf.where(t > 1, before, tf.ones_like(t))


def of_delay(t: Any) -> Any:
    """The method of steps: u′ = −u(t − 1), and u = 1 before 0."""
    first, second = 1 - t, 1.5 - 2 * t + t**2 / 2
    third = -0.5 + 1.5 * (2 - t) + ((t - 1) ** 2 - 1) - ((t - 1) ** 3 - 1) / 6
    return np.select([t <= 1, t <= 2], [first, second], third)


CASES: dict[str, tuple[Problem, Any]] = {
    "memory": (Problem(Interval(0, 2), memory, conditions=START), np.sin),
    "memory of time": (Problem(Time(0, 12), memory, conditions=[Initial(0.0)]), np.sin),
    "caputo": (Problem(Interval(0, 1), of_caputo, conditions=START), np.square),
    "row after row": (Problem(Interval(0, 2), of_rows, conditions=START), np.sin),
    "nodes": (Problem(Interval(0, 1), of_fredholm, conditions=[]), lambda x: np.sin(3 * x)),
    "own tapes": (
        Problem(Interval(0, 1), by_own_tapes, conditions=[Dirichlet(lambda x: np.sin(3 * x))]),
        lambda x: np.sin(3 * x),
    ),
    "delay": (Problem(Time(0, 3), late, conditions=[Initial(1.0)]), of_delay),
}


@pytest.mark.parametrize("name", CASES)
def test_polynomials_solve_it(name: str) -> None:
    problem, exact = CASES[name]
    result = solve(problem, tolerance=1e-6, progress=False)
    assert isinstance(result.networks[0], Polynomials)
    x = np.linspace(problem.domain.lower[0], problem.domain.upper[0], 200)[:, None]
    error = np.abs(result.predict(x).mean - exact(x)).max()
    assert error < 3e-6 and result.error.relative < 1e-6


def test_a_derivative_that_is_read_at_few_points() -> None:
    """In 1/1000 of the interval the equation has another form, with its second derivative."""

    def equation(u: Any, x: Any) -> Any:
        other = laplacian(u, x) + 9 * tf.sin(3 * x)
        return tf.where(tf.abs(x - 0.403) < 5e-4, other, u(x) - tf.sin(3 * x))

    problem = Problem(Interval(0, 1), equation, conditions=[])
    result = solve(problem, tolerance=1e-6, seed=0, progress=False)
    x = np.linspace(0, 1, 100)[:, None]
    assert isinstance(result.networks[0], Polynomials)
    assert np.abs(result.predict(x).mean - np.sin(3 * x)).max() < 3e-6


def test_a_derivative_that_is_read_in_a_comparison() -> None:
    """Of one sign, which NaN would not tell from the other one."""

    def equation(u: Any, x: Any) -> Any:
        second = laplacian(u, x)
        return tf.where(second < 0.0, -second, tf.zeros_like(x)) - 9 * tf.sin(3 * x)

    problem = Problem(Interval(0, 1), equation, conditions=[Dirichlet(lambda x: np.sin(3 * x))])
    result = solve(problem, tolerance=1e-6, progress=False)
    x = np.linspace(0, 1, 100)[:, None]
    assert isinstance(result.networks[0], Polynomials)
    assert np.abs(result.predict(x).mean - np.sin(3 * x)).max() < 3e-6


def test_columns_that_are_not_kept_are_the_same(monkeypatch: Any) -> None:
    """Those of functions of a corner, for an equation that asks at other points, too."""
    corner = Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])

    def equation(u: Any, x: Any) -> Any:
        return laplacian(u, x) - u(x / 2) + 1

    problem = Problem(corner, equation, conditions=[Dirichlet(0.0)])
    found = []
    for kept in (1e8, 0):
        monkeypatch.setattr(system, "_MOST_KEPT", kept)
        monkeypatch.setattr(system, "_POINTS", 100)
        found.append(solve(problem, tolerance=1e-5, progress=False))
    x = problem.domain.sample(100, seed=1)
    (one, error), (other, _) = ((each.predict(x).mean, each.error.relative) for each in found)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)
    assert error < 1e-5


def test_an_integral_over_the_past_in_space_and_time() -> None:
    def equation(u: Any, x: Any) -> Any:
        source = (1 + np.pi**2 * x[:, 1:] - x[:, 1:] ** 2 / 2) * tf.sin(np.pi * x[:, :1])
        return derivative(u, x, 1) - derivative(u, x, 0, 0) - integral_to(u, x, 1) - source

    conditions = [Dirichlet(0.0, on=["left", "right"]), Initial(0.0)]
    problem = Problem(Interval(0, 1) * Time(0, 1), equation, conditions=conditions)
    result = solve(problem, tolerance=1e-6, progress=False)
    x = np.random.default_rng(0).uniform(size=(100, 2))
    exact = np.sin(np.pi * x[:, :1]) * x[:, 1:]
    assert np.abs(result.predict(x).mean - exact).max() < 3e-6


def test_own_tapes_in_windows() -> None:
    """Near a layer in the plane, of a system whose second equation is by operators."""

    def layer(x: Any) -> Any:
        return (1 - np.exp(-x[:, :1] / 0.02)) * x[:, 1:]

    def equations(u: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = derivative(u["v"], x, 0)
        second = tape.gradient(first, x)[:, :1]
        return tf.concat([0.02 * second + first, laplacian(u["w"], x)], axis=1)

    conditions = [Dirichlet(layer, component="v"), Dirichlet(lambda x: x[:, :1], component="w")]
    problem = Problem(Box([0, 0], [1, 1]), equations, conditions=conditions, outputs=["v", "w"])
    result = solve(problem, tolerance=1e-5, seconds=300, progress=False)
    x = np.random.default_rng(0).uniform(size=(200, 2))
    assert np.abs(result.predict(x).mean - np.hstack([layer(x), x[:, :1]])).max() < 1e-4
    assert result.error.known
