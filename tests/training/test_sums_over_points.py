"""Problems of which some rows are sums over points, and domains of all kinds, by polynomials."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

import sciml_par as sp
from sciml_par._tensorflow import tf
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Ellipse,
    Initial,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Polygon,
    Problem,
    Time,
    Unknown,
    derivative,
    laplacian,
)

SQUARE = Box([-1, -1], [1, 1])
L_SHAPE = SQUARE - Box([0, -1], [1, 0])
NORM = IntegralCondition(lambda u, x: u(x) ** 2, 1.0)


def solved(problem: Problem, tolerance: float = 1e-6) -> Any:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        result = sp.solve(problem, tolerance=tolerance, seconds=60)
    assert result.error.relative <= tolerance
    assert "features" not in out.getvalue() and "network" not in out.getvalue(), out.getvalue()
    return result


def mode_of(domain: Any, near: float, *further: Any) -> Problem:
    def equation(u: Any, x: Any, k: Any) -> Any:
        return laplacian(u, x) + k * u(x)

    of = {"k": Unknown(near, lower=0)}
    conditions = [Dirichlet(0.0), NORM, *further]
    return Problem(domain, equation, conditions=conditions, unknowns=of)


def modes(domain: Any, near: float) -> float:
    return float(solved(mode_of(domain, near)).unknowns["k"].mean)


@pytest.mark.parametrize(
    ("domain", "near", "mode"),
    [
        (L_SHAPE, 9.0, 9.6397238440219),  # Betcke and Trefethen 2005, SIAM Review 47, 469
        (Ball([0, 0], 1.0), 5.0, 2.404825557695773**2),
        (Interval(0, 1), 85.0, 9 * np.pi**2),
    ],
)
def test_a_mode_is_the_one_that_is_closest_to_the_start(
    domain: Any, near: float, mode: float
) -> None:
    assert modes(domain, near) == pytest.approx(mode, rel=1e-6)


def test_of_a_double_mode_the_frequency_is_known_but_not_u() -> None:
    """sin πx sin 2πy and sin 2πx sin πy, and their sums; a value at a point chooses one of them."""
    square = Box([0, 0], [1, 1])
    with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sp.solve(mode_of(square, 49.0), tolerance=1e-6, seconds=60)
    assert not result.error.known and "a family of solutions near this one" in result.error.reason
    assert "features" not in out.getvalue() and "network" not in out.getvalue(), out.getvalue()
    assert result.unknowns["k"].mean == pytest.approx(5 * np.pi**2, rel=1e-6)
    chosen = Observations([[0.5, 0.25]], [[0.0]])  # where the first one has its maximum
    found = solved(mode_of(square, 49.0, chosen)).predict([[0.25, 0.5], [0.75, 0.5]]).mean
    np.testing.assert_allclose(np.abs(found), 2.0, rtol=1e-5)
    assert found.prod() < 0


@pytest.mark.parametrize("share", [0.0, 1e-6])
def test_a_component_that_is_nearly_zero_is_no_family_of_solutions(share: float) -> None:
    def equation(u: Any, x: Any, g: Any) -> Any:
        second = laplacian(u, x)
        return tf.concat([second[:, :1] + g, second[:, 1:] + share * u(x)[:, :1]], axis=1)

    rate = IntegralCondition(lambda u, x: u(x)[:, :1], 1.0)
    of: Any = {"conditions": [Dirichlet(0.0), rate], "unknowns": {"g": Unknown(1.0)}}
    problem = Problem(Box([0, 0], [1, 1]), equation, outputs=2, **of)
    assert solved(problem).unknowns["g"].mean == pytest.approx(28.45415, rel=1e-6)


def test_a_mode_that_few_polynomials_cannot_tell_is_not_lost_for_a_simpler_one() -> None:
    def equation(u: Any, x: Any, energy: Any) -> Any:
        return -0.5 * laplacian(u, x) + (0.5 * x**2 - energy) * u(x)

    of = {"energy": Unknown(2.3)}
    conditions = [Dirichlet(0.0), NORM]
    found = solved(Problem(Interval(-6, 6), equation, conditions=conditions, unknowns=of))
    assert found.unknowns["energy"].mean == pytest.approx(2.5, abs=1e-6)  # and not 1.5


def test_a_mean_fixes_what_fluxes_leave_open() -> None:
    def equation(u: Any, x: Any) -> Any:
        return laplacian(u, x) + 2 * np.pi**2 * exact(x, tf.cos)

    def exact(x: Any, cos: Any = np.cos) -> Any:
        return cos(np.pi * x[:, :1]) * cos(np.pi * x[:, 1:])

    mean = IntegralCondition(lambda u, x: u(x), 0.0)
    problem = Problem(Box([0, 0], [1, 1]), equation, conditions=[Neumann(0.0), mean], exact=exact)
    assert solved(problem).relative_l2_error < 1e-8


def test_the_flow_rate_of_a_channel_tells_the_pressure_drop() -> None:
    """Beside a temperature, which the flow heats; both have the corners of the channel."""

    def flow(u: Any, x: Any, *, drop: Any) -> Any:
        of = laplacian(u, x)
        return tf.concat([of[:, :1] + drop, of[:, 1:] + u(x)[:, :1]], axis=1)

    rate = IntegralCondition(lambda u, x: u(x)[:, :1], 1.0)
    channel = Problem(
        Box([0, 0], [2, 1]),
        flow,
        conditions=[Dirichlet(0.0), rate],
        outputs=("w", "T"),
        unknowns={"drop": Unknown(1.0)},
    )
    # White 2006, Viscous Fluid Flow, eq. 3-48.
    n = np.arange(1, 400, 2)
    of_one = (1 - 96 / np.pi**5 * np.sum(np.tanh(n * np.pi) / n**5)) / 6
    assert solved(channel).unknowns["drop"].mean == pytest.approx(1 / of_one, rel=1e-6)


def test_an_integrand_takes_unknowns() -> None:
    def equation(u: Any, x: Any) -> Any:
        return laplacian(u, x) + np.pi**2 * tf.sin(np.pi * x)

    price = IntegralCondition(lambda u, x, a: a * u(x), 1.0)
    of = {"a": Unknown(1.0)}
    found = solved(
        Problem(Interval(0, 1), equation, conditions=[Dirichlet(0.0), price], unknowns=of)
    )
    assert found.unknowns["a"].mean == pytest.approx(np.pi / 2, rel=1e-6)


def test_a_class_with_a_residual_of_its_own_is_no_sum() -> None:
    class Cubed(IntegralCondition):
        def residual(self, u: Any, *arrays: Any) -> Any:
            return super().residual(u, *arrays) ** 3

    def sums(kind: Any) -> Any:
        integral = kind(lambda u, x: u(x), 1.0)
        problem = Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(0.0), integral])
        return problem.terms[-1].sums

    assert sums(Cubed) is None and sums(IntegralCondition) is not None


def test_windows_have_integrals_over_all_of_them() -> None:
    def equation(u: Any, x: Any, force: Any) -> Any:
        return 1e-3 * derivative(u, x, 0, 0) - derivative(u, x, 0) + force

    def exact(x: Any) -> Any:  # a layer at x = 1
        return x - np.exp((x - 1) / 1e-3)

    conditions = [Dirichlet(exact), IntegralCondition(lambda u, x: u(x), 0.5 - 1e-3, points=400)]
    of = {"force": Unknown(0.5)}
    problem = Problem(Interval(0, 1), equation, conditions=conditions, exact=exact, unknowns=of)
    with warnings.catch_warnings(action="error"):  # that another solution may be meant
        found = solved(problem, 1e-5)
    assert found.unknowns["force"].mean == pytest.approx(1.0, abs=1e-5)


def test_correlated_errors_are_weighed_by_their_covariance() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.05, 0.95, (40, 2))
    apart = np.abs(x[:, :1] - x[:, 0])
    covariance = 1e-4 * (0.3 * np.eye(40) + 0.7 * np.exp(-apart / 0.3))
    root = np.linalg.cholesky(covariance)

    def exact(k: Any) -> Any:
        return np.exp(-k * np.pi**2 * x[:, 1]) * np.sin(np.pi * x[:, 0])

    values = exact(0.1) + root @ rng.normal(size=40)
    problem = Problem(
        Interval(0, 1) * Time(0, 1),
        lambda u, x, k: derivative(u, x, 1) - k * derivative(u, x, 0, 0),
        conditions=[
            Initial(lambda x: tf.sin(np.pi * x[:, :1])),
            Dirichlet(0.0, on=["left", "right"]),
            Observations(x, values, noise=covariance),
        ],
        unknowns={"k": Unknown(0.5, lower=0)},
    )
    found = solved(problem, 1e-4)
    fit = least_squares(lambda k: np.linalg.solve(root, exact(k) - values), 0.1)
    deviation = float(1 / np.linalg.norm(fit.jac))
    assert found.unknowns["k"].mean == pytest.approx(fit.x[0], abs=0.01 * deviation)
    assert found.uncertainty().deviations[0] == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize(
    "domain",
    [
        Ball([0, 0], 1.0),
        Ellipse([0, 0], [2.0, 1.0], angle=0.3),
        Ball([0, 0], 1.0) - Ball([0.1, 0], 0.4),
        SQUARE - Ball([0.1, 0], 0.4),
        Ball([0, 0], 1.0) & Box([-1, 0], [1, 1]),
        L_SHAPE,
        SQUARE | Ball([1, 0], 0.8),
        Polygon([(0, 0), (2, 0), (2, 1), (1, 1.5)]),
    ],
    ids=str,
)
def test_a_polynomial_is_found_exactly_in_any_domain(domain: Any) -> None:
    def exact(x: Any) -> Any:
        return 1 + x[:, :1] + (x[:, :1] ** 2 + x[:, 1:] ** 2) / 2

    problem = Problem(
        domain, lambda u, x: laplacian(u, x) - 2.0, conditions=[Dirichlet(exact)], exact=exact
    )
    assert solved(problem, 1e-8).relative_l2_error < 1e-13


def test_an_l_that_is_a_difference_of_boxes_has_all_its_corners() -> None:
    problem = Problem(L_SHAPE, lambda u, x: laplacian(u, x) + 1, conditions=[Dirichlet(0.0)])
    assert solved(problem, 1e-7).error.known
