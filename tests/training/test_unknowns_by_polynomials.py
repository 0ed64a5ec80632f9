"""Unknown coefficients that `solve` finds by polynomials, from exact data and from noisy ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sciml_par.parallel as sp
from sciml_par._tensorflow import tf
from sciml_par.networks import Polynomials
from sciml_par.problems import (
    Box,
    Dirichlet,
    Interval,
    Normal,
    Observations,
    Problem,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.results import Result
from sciml_par.training import solve
from sciml_par.training.solving.cell_points import PointsOfTerms

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
NOISE = 0.01
X = np.linspace(0.05, 0.95, 30)[:, None]
COLUMNS = np.hstack([np.sin(np.pi * X) / np.pi**2, X * (1 - X) / 2])
"""u of −u″ = a sin πx + b, u(0) = u(1) = 0, by a and b."""
VALUES = COLUMNS @ np.array([[3.0], [1.0]]) + NOISE * np.random.default_rng(3).normal(size=X.shape)


def loads(noise: Any, **unknowns: Any) -> Problem:
    def residual(u: Any, x: Any, *, a: Any, b: Any) -> Any:
        return -laplacian(u, x) - a * tf.sin(np.pi * x) - b

    data = Observations(X, VALUES, noise=noise)
    sought = {"a": 1.0, "b": Unknown(0.5, true=1.0)} | unknowns
    return Problem(Interval(0, 1), residual, conditions=[Dirichlet(0.0), data], unknowns=sought)


def by_polynomials(problem: Problem, **options: Any) -> Result:
    result = solve(problem, progress=False, **options)
    assert isinstance(result.networks[0], Polynomials)
    everyone = sp.current_world().communicator
    assert len({str(found) for found in everyone.allgather_object(result.members[0].unknowns)}) == 1
    return result


def test_values_and_covariance_are_those_of_linear_regression(tmp_path: Any) -> None:
    result = by_polynomials(loads(NOISE))
    covariance = NOISE**2 * np.linalg.inv(COLUMNS.T @ COLUMNS)
    best = (covariance @ COLUMNS.T @ VALUES / NOISE**2).ravel()
    deviations = np.sqrt(np.diag(covariance))
    found = result.members[0].unknowns
    assert np.all(np.abs(np.array([found["a"], found["b"]]) - best) < 0.02 * deviations)
    uncertainty = result.uncertainty()
    assert uncertainty.known
    np.testing.assert_allclose(uncertainty.deviations, deviations, rtol=0.02)
    assert np.all(uncertainty.numerical < 0.01 * deviations)
    fit = result.members[0].fits["observations"]
    r = (VALUES - COLUMNS @ best[:, None]) / NOISE
    assert fit.chi_square == pytest.approx(float(np.mean(r**2)), rel=0.02)
    folder = sp.current_world().communicator.on_root(lambda: tmp_path / "result")
    result.save(folder)
    again = Result.load(folder)
    assert again.members[0].unknowns == found
    np.testing.assert_allclose(again.uncertainty().deviations, uncertainty.deviations)
    np.testing.assert_array_equal(again.predict(X).mean, result.predict(X).mean)


def test_the_deviation_of_data_is_found_with_the_coefficients() -> None:
    result = by_polynomials(loads("unknown"))
    r = VALUES - COLUMNS @ np.linalg.lstsq(COLUMNS, VALUES, None)[0]
    (deviation,) = result.members[0].fits["observations"].deviation
    assert deviation == pytest.approx(float(np.sqrt(np.sum(r**2) / (len(r) - 2))), rel=0.02)


def test_a_prior_counts_as_a_datum() -> None:
    result = by_polynomials(loads(NOISE, b=Unknown(0.5, prior=Normal(0.0, 0.1))))
    rows = np.vstack([COLUMNS / NOISE, [[0.0, 1 / 0.1]]])
    best = np.linalg.lstsq(rows, np.vstack([VALUES / NOISE, [[0.0]]]), None)[0].ravel()
    deviations = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
    found = result.members[0].unknowns
    assert np.all(np.abs(np.array([found["a"], found["b"]]) - best) < 0.02 * deviations)
    np.testing.assert_allclose(result.uncertainty().deviations, deviations, rtol=0.02)


def test_what_no_datum_depends_on_is_not_claimed() -> None:
    def residual(u: Any, x: Any, *, a: Any) -> Any:
        return laplacian(u, x) + a * (u(x) - x)  # of u = x, for every a

    conditions = [Dirichlet(lambda x: x), Observations(X, X, noise=NOISE)]
    problem = Problem(Interval(0, 1), residual, conditions=conditions, unknowns={"a": 1.0})
    result = by_polynomials(problem)
    assert not result.uncertainty().deviations[0] < 10 * abs(result.members[0].unknowns["a"])


@two
def test_three_coefficients_of_a_chaotic_system() -> None:
    true = np.array([10.0, 15.0, 8 / 3])

    def slopes(t: Any, y: Any, c: Any) -> list[Any]:
        return [c[0] * (y[1] - y[0]), y[0] * (c[1] - y[2]) - y[1], y[0] * y[1] - c[2] * y[2]]

    def residual(u: Any, t: Any, *, c: Any) -> Any:
        return derivative(u, t, 0) - tf.stack(slopes(t, tf.unstack(u(t), axis=1), c), axis=1)

    times = np.linspace(0, 3, 25)
    tight = {"rtol": 1e-11, "atol": 1e-11}
    values = solve_ivp(partial(slopes, c=true), (0, 3), [-8, 7, 27], t_eval=times, **tight).y.T
    problem = Problem(
        Interval(0, 3),
        residual,
        conditions=[Observations(times[:, None], values)],
        outputs=["p", "q", "r"],
        unknowns={"c": Unknown([8.0, 25.0, 2.0], lower=0)},
    )
    result = by_polynomials(problem)
    missed = np.abs(result.members[0].unknowns["c"] - true)
    assert np.all(missed < 1e-5)
    assert np.all(missed < 3 * result.error.unknowns["c"])


def test_derivatives_by_coefficients_and_unknowns() -> None:
    """Differences of the rows, in windows, of a condition that asks at two places."""
    from sciml_par.assembly.system import System
    from sciml_par.networks.propagation.cells import Cells
    from sciml_par.problems import Periodic

    def residual(u: Any, x: Any, *, k: Any) -> Any:
        y, gradient = u(x), derivative(u, x, 1)
        return tf.concat([k[0] * laplacian(u, x) + y * gradient, k[1] ** 2 * y], axis=1)

    sought = {"k": Unknown([0.5, 2.0], lower=0)}
    conditions = [Periodic(0), Dirichlet(1.0, on="bottom")]
    problem = Problem(Box([0, 0], [1, 1]), residual, conditions=conditions, unknowns=sought)
    model = Polynomials(2, 1, degree=3, breaks=(tuple(np.linspace(0, 1, 4)), (0.0, 0.4, 1.0)))
    system = System(PointsOfTerms(problem, 0).in_cells(Cells(model.cells.breaks), (5, 5)), model)
    rng = np.random.default_rng(0)
    theta, d = rng.normal(size=(2, model.coefficients.shape.num_elements() + 2))
    terms, h = system.linearized(theta), 1e-6
    above, below = (
        np.concatenate([term.residuals.ravel() for term in system.linearized(theta + step)])
        for step in (h * d, -h * d)
    )
    differences = (above - below) / (2 * h)
    np.testing.assert_allclose(d @ system.dense(terms), differences, rtol=1e-6, atol=1e-6)
    step, left = system.step(terms)
    r = np.concatenate([term.residuals.ravel() for term in terms])
    best, *_ = np.linalg.lstsq(system.dense(terms).T, r, None)
    np.testing.assert_allclose(left, np.sum((best @ system.dense(terms) - r) ** 2), rtol=1e-9)
    np.testing.assert_allclose(step @ system.dense(terms), best @ system.dense(terms), atol=1e-6)
