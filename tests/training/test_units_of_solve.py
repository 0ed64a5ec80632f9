"""`solve` gives the same answers in all units of coordinates, components, equations, unknowns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import solve_ivp

from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Time,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.training import solve

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
TOLERANCE, MANY = 1e-5, 30


class Units:
    """Powers of ten, drawn at random; all 1 for the first of them."""

    def __init__(self, number: int) -> None:
        self._rng, self._natural = np.random.default_rng(number), number == 0

    def __call__(self) -> float:
        return 1.0 if self._natural else 10.0 ** self._rng.integers(-9, 10)

    def zero(self, size: float) -> float:
        """Return a constant that is added to a component of this size."""
        return 0.0 if self._natural else size * float(self._rng.choice([0, 1, -3, 10]))


def reaction(unit: Units) -> tuple[Problem, Any, Any]:
    a, b, d = unit(), unit(), unit()
    c = unit.zero(b)

    def residual(u: Any, x: Any) -> Any:
        sine = tf.sin(np.pi * x / a)
        source = -(np.pi**2) * sine + (sine + x / a / 2) ** 3
        return d * (a * a * laplacian(u, x) / b + ((u(x) - c) / b) ** 3 - source)

    def exact(x: Any) -> Any:
        return c + b * (np.sin(np.pi * x / a) + x / a / 2)

    return Problem(Interval(0, a), residual, conditions=[Dirichlet(exact)], exact=exact), c, b


def heat(unit: Units) -> tuple[Problem, Any, Any]:
    a, t, b, d = unit(), unit(), unit(), unit()
    c = unit.zero(b)

    def residual(u: Any, x: Any) -> Any:
        return d / b * (t * derivative(u, x, "t") - 0.1 * a * a * derivative(u, x, 0, 0))

    def exact(x: Any) -> Any:
        return c + b * np.exp(-0.1 * np.pi**2 * x[:, 1:] / t) * np.sin(np.pi * x[:, :1] / a)

    sides = Dirichlet(c, on=["left", "right"])
    begin = Initial(lambda x: c + b * np.sin(np.pi * x[:, :1] / a))
    domain = Interval(0, a) * Time(0, t)
    return Problem(domain, residual, conditions=[sides, begin], exact=exact), c, b


def wave(unit: Units) -> tuple[Problem, Any, Any]:
    """In its own units, smooth functions of x + t have no residual."""
    a, t, b, d = unit(), unit(), unit(), unit()
    c = unit.zero(b)

    def residual(u: Any, x: Any) -> Any:
        return d / b * (t * t * derivative(u, x, "t", "t") - a * a * derivative(u, x, 0, 0))

    def exact(x: Any) -> Any:
        return c + b * np.sin(np.pi * x[:, :1] / a) * np.cos(np.pi * x[:, 1:] / t)

    conditions = [
        Dirichlet(c, on=["left", "right"]),
        Initial(lambda x: c + b * np.sin(np.pi * x[:, :1] / a)),
        Initial(0.0, order=1),
    ]
    return Problem(Interval(0, a) * Time(0, t), residual, conditions=conditions, exact=exact), c, b


def predators(unit: Units) -> tuple[Problem, Any, Any]:
    t, sizes, d = unit(), np.array([unit(), unit()]), (unit(), unit())

    def rates(p: Any, q: Any) -> tuple[Any, Any]:
        return 1.1 * p - 0.4 * p * q, 0.1 * p * q - 0.4 * q

    def equation(j: int) -> Any:
        def residual(u: Any, x: Any) -> Any:
            p, q = (u(x)[:, k : k + 1] / sizes[k] for k in range(2))
            change = t / sizes[j] * derivative(u, x, "t", component="pq"[j])
            return d[j] * (change - rates(p, q)[j])

        return residual

    options = {"rtol": 1e-11, "atol": 1e-11, "dense_output": True}
    reference = solve_ivp(lambda _, y: rates(*y), (0, 10), [10, 5], **options).sol
    begin = [Initial(10 * sizes[0], component="p"), Initial(5 * sizes[1], component="q")]
    problem = Problem(
        Time(0, 10 * t),
        [equation(0), equation(1)],
        conditions=begin,
        outputs=("p", "q"),
        exact=lambda x: reference(x[:, 0] / t).T * sizes,
    )
    return problem, 0.0, sizes


def plate(unit: Units) -> tuple[Problem, Any, Any]:
    a, b, d = (unit(), unit()), unit(), unit()
    c = unit.zero(b)

    def residual(u: Any, x: Any) -> Any:
        source = 5 * np.pi**2 * tf.sin(np.pi * x[:, :1] / a[0])
        source *= tf.sin(2 * np.pi * x[:, 1:] / a[1])
        second = [a[k] ** 2 / b * derivative(u, x, k, k) for k in range(2)]
        return d * (second[0] + second[1] + source)

    def exact(x: Any) -> Any:
        return c + b * np.sin(np.pi * x[:, :1] / a[0]) * np.sin(2 * np.pi * x[:, 1:] / a[1])

    return Problem(Box([0, 0], a), residual, conditions=[Dirichlet(c)], exact=exact), c, b


def diffusivity(unit: Units) -> tuple[Problem, Any, Any]:
    """The unknown is twice its unit."""
    a, b, k, d = unit(), unit(), unit(), unit()
    at = np.linspace(0, a, 20)[1:-1, None]

    def exact(x: Any) -> Any:
        return b * np.sin(np.pi * x / a)

    def residual(u: Any, x: Any, *, D: Any) -> Any:
        source = 2 * np.pi**2 * tf.sin(np.pi * x / a)
        return d * (D / k * a * a / b * laplacian(u, x) + source)

    seen = [Dirichlet(0.0), Observations(at, exact(at))]
    unknowns = {"D": Unknown(k, true=2 * k)}
    return (
        Problem(Interval(0, a), residual, conditions=seen, unknowns=unknowns, exact=exact),
        0.0,
        b,
    )


KINDS = [reaction, heat, wave, predators, plate, diffusivity]


def check(kind: Any, number: int) -> None:
    problem, zero, size = kind(Units(number))
    found = solve(problem, tolerance=TOLERANCE, progress=False)
    x = problem.domain.sample(300, seed=1)
    exact = (problem.exact(x) - zero) / size
    values = (found.predict(x).mean.reshape(exact.shape) - zero) / size
    relative = np.linalg.norm(values - exact) / np.linalg.norm(exact)
    assert found.error.known and relative < 3 * TOLERANCE, (number, found.error)
    for name, unknown in problem.unknowns.items():
        assert found.unknowns[name].mean == pytest.approx(unknown.true, rel=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_is_the_same_in_other_units(kind: Any) -> None:
    for number in range(3):
        check(kind, number)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_is_the_same_in_many_units(kind: Any) -> None:
    for number in range(3, MANY):
        check(kind, number)
