"""What `solve` claims of problems that lack a condition, nearly lack one, or have narrow parts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize_scalar
from scipy.special import erf

from sciml_par import solve
from sciml_par.errors import ResultWarning
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Problem,
    Time,
    Unknown,
    biharmonic,
    derivative,
    laplacian,
)
from sciml_par.results import Result

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")

LINE, SQUARE, ROD = Interval(0, 1), Box([0, 0], [1, 1]), Interval(0, 1) * Time(0, 1)


def solved(problem: Problem, tolerance: float = 1e-6) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(problem, tolerance=tolerance, seconds=20, progress=False)


def vibration(u: Any, x: Any) -> Any:
    return derivative(u, x, "t", "t") + u(x)


def wave(u: Any, x: Any) -> Any:
    return derivative(u, x, "t", "t") - derivative(u, x, "x", "x")


def heat(u: Any, x: Any) -> Any:
    return derivative(u, x, "t") - derivative(u, x, "x", "x")


def resonant(u: Any, x: Any) -> Any:
    f = tf.sin(np.pi * x[:, :1]) * tf.sin(2 * np.pi * x[:, 1:])
    return laplacian(u, x) + 2 * np.pi**2 * u(x) - f


def seventh(u: Any, x: Any) -> Any:
    return laplacian(u, x) + (7 * np.pi) ** 2 * u(x) - tf.cos(np.pi * x)


def sine(x: Any) -> Any:
    return np.sin(np.pi * x[:, :1])


def harmonic(x: Any) -> Any:
    return np.exp(x[:, :1]) * np.sin(x[:, 1:])


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(Problem(Time(0, 5), vibration, conditions=[Initial(1.0)]), id="velocity"),
        pytest.param(
            Problem(ROD, wave, conditions=[Dirichlet(0.0, on=["left", "right"]), Initial(sine)]),
            id="velocity of a wave",
        ),
        pytest.param(
            Problem(ROD, heat, conditions=[Dirichlet(0.0, on="left"), Initial(sine)]),
            id="one end of a rod",
        ),
        pytest.param(
            Problem(SQUARE, laplacian, conditions=[Dirichlet(harmonic, on=["left", "bottom"])]),
            id="two sides",
        ),
        pytest.param(
            Problem(SQUARE, lambda u, x: biharmonic(u, x) - 1.0, conditions=[Dirichlet(0.0)]),
            id="slope of a plate",
        ),
        pytest.param(Problem(SQUARE, resonant, conditions=[Dirichlet(0.0)]), id="resonance"),
        pytest.param(Problem(LINE, seventh, conditions=[Dirichlet(0.0)]), id="seventh resonance"),
    ],
)
def test_no_error_is_claimed_where_a_condition_is_missing(problem: Problem) -> None:
    """Its free functions have finer structures than the solution that is found; it is told once."""
    with pytest.warns(RuntimeWarning) as told:
        error = solve(problem, tolerance=1e-6, seconds=20, progress=False).error
    assert not error.known and "do not determine the solution" in error.reason
    assert sum(issubclass(each.category, ResultWarning) for each in told) == 1


def transport(u: Any, x: Any) -> Any:
    return derivative(u, x, "t") + derivative(u, x, "x") + 20 * u(x)


def carried(x: Any) -> Any:
    return np.sin(np.pi * (x[:, :1] - x[:, 1:])) * np.exp(-20 * x[:, 1:])


def across(u: Any, x: Any) -> Any:
    return derivative(u, x, "t") + derivative(u, x, "x") + 0.5 * derivative(u, x, "y")


def bar(u: Any, x: Any) -> Any:
    """Equations of a Timoshenko beam, whose ends take two conditions."""
    shear = derivative(u, x, "x", component=0) - u[1](x)
    w = wave(u[0], x) + derivative(u, x, "x", component=1)
    return tf.concat([w, wave(u[1], x) - shear], axis=1)


@pytest.mark.parametrize(
    ("problem", "side"),
    [
        pytest.param(Problem(ROD, transport, conditions=[Initial(sine)]), "x = 0", id="inflow"),
        pytest.param(
            Problem(ROD, transport, conditions=[Initial(sine), Dirichlet(carried, on="right")]),
            "x = 0",
            id="condition at the outflow",
        ),
        pytest.param(
            Problem(
                ROD,
                lambda u, x: wave(u, x) + 0.99 * derivative(u, x, "x", "x"),
                conditions=[Initial(sine), Initial(0.0, order=1), Dirichlet(0.0, on="left")],
            ),
            "x = 1",
            id="slow wave",
        ),
        pytest.param(
            Problem(
                ROD,
                lambda u, x: derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x"),
                conditions=[Initial(sine), Dirichlet(0.0, on="left")],
            ),
            "x = 1",
            id="slow diffusion",
        ),
        pytest.param(
            Problem(
                ROD,
                bar,
                outputs=2,
                conditions=[
                    Initial(lambda x: np.hstack([sine(x), 0 * x[:, :1]])),
                    Initial(0.0, order=1),
                    Dirichlet(0.0, on="left"),
                    Dirichlet(0.0, on="right", component=0),
                ],
            ),
            "x = 1",
            id="rotation of a beam",
        ),
        pytest.param(
            Problem(
                SQUARE * Time(0, 1),
                across,
                conditions=[
                    Initial(sine),
                    Dirichlet(lambda x: -np.sin(np.pi * x[:, 2:]), on="left"),
                ],
            ),
            "y = 0",
            id="one of two inflows",
        ),
    ],
)
def test_a_side_at_which_something_enters_takes_a_condition(problem: Problem, side: str) -> None:
    """Polynomials continue what is known there, and no other function is as smooth."""
    error = solved(problem).error
    assert not error.known and f"into the domain at {side}, where" in error.reason


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(
            Problem(
                ROD,
                lambda u, x: derivative(u, x, "t") + x[:, :1] * derivative(u, x, "x"),
                conditions=[Initial(lambda x: x[:, :1])],
                exact=lambda x: x[:, :1] * np.exp(-x[:, 1:]),
            ),
            id="nothing enters",
        ),
        pytest.param(
            Problem(
                ROD,
                lambda u, x: (
                    x[:, :1] * (derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x"))
                    - 0.2 * derivative(u, x, "x")
                ),
                conditions=[Initial(lambda x: np.sinc(x[:, :1])), Dirichlet(0.0, on="right")],
                exact=lambda x: np.sinc(x[:, :1]) * np.exp(-0.1 * np.pi**2 * x[:, 1:]),
            ),
            id="heat in a ball",
        ),
        pytest.param(
            Problem(
                ROD,
                lambda u, x: wave(u, x) - 2 * derivative(u, x, "x") / x[:, :1],
                conditions=[
                    Initial(lambda x: np.sinc(x[:, :1])),
                    Initial(0.0, order=1),
                    Dirichlet(0.0, on="right"),
                ],
                exact=lambda x: np.sinc(x[:, :1]) * np.cos(np.pi * x[:, 1:]),
            ),
            id="centre of a ball",
        ),
    ],
)
def test_a_side_at_which_no_wave_enters_takes_none(problem: Problem) -> None:
    result = solved(problem)
    assert result.relative_l2_error <= 3 * result.error.relative < 1e-6


def test_a_component_without_an_equation_is_open() -> None:
    problem = Problem(
        Time(0, 5),
        lambda u, x: derivative(u, x, 0, component=0) + u[0](x),
        conditions=[Initial([1.0, 0.0])],
        outputs=2,
    )
    assert solved(problem).error.undetermined == ("u2",)


@pytest.mark.parametrize("domain", [LINE, SQUARE], ids=["line", "square"])
def test_a_nearly_free_constant_is_determined(domain: Box) -> None:
    small = 1e-4

    def exact(x: Any) -> Any:
        return 5 + np.prod(np.cos(np.pi * x), axis=1, keepdims=True)

    def equation(u: Any, x: Any) -> Any:
        cosines = tf.reduce_prod(tf.cos(np.pi * x), axis=1, keepdims=True)
        of_cosines = domain.dimension * np.pi**2 + small
        return small * (u(x) - 5) - laplacian(u, x) - of_cosines * cosines

    problem = Problem(domain, equation, conditions=[Neumann(0.0)], exact=exact)
    result = solved(problem)
    assert result.relative_l2_error <= 3 * result.error.relative < 1e-6


def test_a_growth_from_little_is_determined() -> None:
    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 0) - u(x) * (1 - u(x))

    seed = 1e-12
    problem = Problem(
        Time(0, 40),
        equation,
        conditions=[Initial(seed)],
        exact=lambda t: 1 / (1 + (1 / seed - 1) * np.exp(-t)),
    )
    result = solved(problem)
    assert result.relative_l2_error <= 3 * result.error.relative < 1e-6


def test_a_rough_claim_counts_what_its_correction_does_not_see() -> None:
    """A pulse that the points of the correction hardly resolve, of which q = 2.6 told a tenth."""
    at, width = 0.37123, 1e-4

    def equation(u: Any, x: Any) -> Any:
        pulse = tf.exp(-(((x - at) / width) ** 2)) / (width * np.sqrt(np.pi))
        return derivative(u, x, 0) - pulse

    problem = Problem(
        Time(0, 1),
        equation,
        conditions=[Initial(0.1)],
        exact=lambda t: 0.1 + 0.5 * (1 + erf((t - at) / width)),
    )
    result = solved(problem, tolerance=1e-4)
    assert result.relative_l2_error <= 3 * result.error.relative < 3e-4


def test_a_claim_counts_what_the_points_of_an_integral_miss() -> None:
    """Of 32 on this line, few lie in the bell."""
    problem = Problem(
        Interval(-15, 15),
        lambda u, x: derivative(u, x, 0) + 2 * x * u(x),
        conditions=[IntegralCondition(lambda u, x: u(x), 1.0)],
        exact=lambda x: np.exp(-(x**2)) / np.sqrt(np.pi),
    )
    result = solved(problem, tolerance=0.1)
    assert 1e-3 < result.relative_l2_error <= 3 * result.error.relative < 0.3


def test_data_that_contradict_the_equation_have_their_share_in_the_error() -> None:
    """u lies between the two, as equations weigh no more than they do; richer functions agree."""
    t = np.linspace(0.1, 2, 12)[:, None]
    data = 1 / (1 + 3 * t)
    problem = Problem(
        Time(0, 2),
        lambda u, x, *, k: derivative(u, x, 0) + k * u(x),
        conditions=[Initial(1.0), Observations(t, data, noise=0.01)],
        unknowns={"k": Unknown(1.0)},
    )
    k = minimize_scalar(lambda k: np.sum((np.exp(-k * t) - data) ** 2), bracket=(1.0, 2.0)).x
    result, x = solved(problem), np.linspace(0, 2, 50)[:, None]
    exact = np.exp(-k * x)
    true = np.linalg.norm(result.predict(x).mean - exact) / np.linalg.norm(exact)
    assert true <= 3 * result.error.relative
