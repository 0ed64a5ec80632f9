"""SPRING against its formulas in NumPy, and what it does where these have no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import NO_DECREASE, Engine
from one_rank import LeastSquares, step_of

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, laplacian
from sciml_par.training import SPRING, Points
from sciml_par.training.loss.known import Jacobian
from sciml_par.training.optimizers.least_squares.spring import State

DOMAIN = Box([0, 0], [1, 2])
MOST = pytest.mark.ranks(most=2, reason="with fewer points, more ranks have other numbers")
FEW = Points(5, 6, method="uniform", resample_every=1)
MANY = Points(30, 6, method="uniform", resample_every=1)
ONE = Points(DOMAIN.sample(1, seed=1), 6)


def plate() -> Problem:
    return Problem(
        DOMAIN,
        lambda u, x: laplacian(u, x) - u(x) ** 3 + x[:, :1] * x[:, 1:],
        conditions=[Dirichlet(0.3, where=lambda x: x[:, 0] == 0.0, weight=30.0)],
    )


def network(d: int, m: int, **_: Any) -> MLP:
    return MLP(d, m, width=4, depth=1, seed=7, dtype="float64")


def engine(points: Any, *, alone: bool = False, **options: Any) -> Engine:
    world = sp.current_world()
    group = world.alone if alone else world.communicator
    return Engine(plate(), group, network, points=points, **options)


def batches(here: Engine, count: int) -> list[Any]:
    return [here.feed.batch(here.feed.chunk(k), tf.constant(k)) for k in range(count)]


def trained(here: Engine, optimizer: SPRING, count: int) -> list[np.ndarray]:
    """θ: [p] after each step."""
    theta, state = here.parameters, optimizer.init(here.objective, here.parameters)
    step, found = step_of(here.objective, optimizer), []
    for batch in batches(here, count):
        theta, state, _ = step(theta, state, batch)
        assert not state.stuck.numpy().any()
        found.append(theta.numpy()[0])
    return found


def by_formula(
    residuals: Any, theta: np.ndarray, count: int, *, damping: float, momentum: float
) -> list[np.ndarray]:
    """The same in NumPy; residuals(k, θ) are r: [N] and J: [N, p] at the points of step k."""
    phi, found = np.zeros_like(theta), []
    for k in range(count):
        r, jacobian = residuals(k, theta)
        kernel = jacobian @ jacobian.T + damping * np.eye(len(r))
        rest = r - momentum * jacobian @ phi
        phi = momentum * phi + jacobian.T @ np.linalg.solve(kernel, rest)
        corrected = phi / np.sqrt(1 - momentum ** (2 * (k + 1)))
        tries = [theta - 0.5**i * corrected for i in range(31)]
        losses = [np.sum(residuals(k, each)[0] ** 2) for each in tries]
        assert min(losses) < r @ r
        theta = tries[int(np.argmin(losses))]
        found.append(theta)
    return found


def residuals_of(here: Engine, count: int) -> Any:
    compute = tf.function(here.residuals_and_jacobian, autograph=False)
    given = batches(here, count)
    here.objective.prepare(Jacobian, here.parameters, given[0])

    def residuals(k: int, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r, slopes = compute(tf.constant(theta[None]), given[k])
        return np.concatenate([x[0] for x in r]), np.concatenate([x[0] for x in slopes], 1).T

    return residuals


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(FEW, id="fewer"),
        pytest.param(MANY, id="more", marks=MOST),
        pytest.param(ONE, id="one point", marks=pytest.mark.all),
    ],
)
def test_steps_are_those_of_the_formulas_on_any_number_of_ranks(points: Points) -> None:
    """p = 17; with few points some ranks have none of a term."""
    optimizer = SPRING(damping=1e-3, momentum=0.8)
    serial = engine(points, alone=True)
    start = serial.parameters.numpy()[0]
    expected = by_formula(residuals_of(serial, 4), start, 4, damping=1e-3, momentum=0.8)
    found = trained(engine(points), optimizer, 4)
    for theta, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(theta, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
    assert np.abs(found[-1] - found[0]).max() > 1e-4


@pytest.mark.ranks(most=1, reason="on each rank the same")
def test_single_precision_solves_in_double() -> None:
    """J Jᵀ has the eigenvalues 4 and 2.5e-9, and the smaller one is lost in single precision."""
    objective = LeastSquares(
        lambda t: tf.stack([t[0] + t[1] - 2, t[0] + 1.0001 * t[1] - 2.0001]), 2
    )
    optimizer = SPRING(damping=1e-12, momentum=0.0)
    theta, _ = _run(objective, optimizer, [2.0, -1.0], 3, "float32")
    assert theta.dtype == np.float32
    np.testing.assert_allclose(theta, [[1.0, 1.0]], rtol=0, atol=1e-2)


@pytest.mark.ranks(most=1, reason="on each rank the same")
def test_a_zero_residual_ends_it() -> None:
    objective = LeastSquares(lambda t: 0 * t, 2)
    theta, state = _run(objective, SPRING(), [1.0, 2.0], 1)
    assert state.stuck.numpy().all()
    np.testing.assert_array_equal(theta, [[1.0, 2.0]])
    assert np.isfinite(state.direction).all()


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_the_loop_ends_where_nothing_is_left_to_lower() -> None:
    problem = Problem(DOMAIN, lambda u, x: 0 * u(x))
    here = Engine(problem, sp.current_world().communicator, network, 4, optimizer=SPRING())
    chunk = here.advance(here.start(), 5)
    assert chunk.done == 0
    assert chunk.state.ended.numpy().tolist() == [NO_DECREASE]
    np.testing.assert_array_equal(chunk.state.parameters, here.parameters)


@pytest.mark.ranks(most=1, reason="on each rank the same")
def test_trials_at_which_the_loss_is_not_a_number_are_passed_over() -> None:
    """log θ at θ = 10: η = 1 and 1/2 lead below zero, and 1/4 is better than 1/8."""
    theta, state = _run(
        LeastSquares(tf.math.log, 1), SPRING(damping=1e-12, momentum=0.0), [10.0], 1
    )
    np.testing.assert_allclose(theta, 10 - 10 * np.log(10) / 4, rtol=1e-5)
    assert state.step_size.numpy().tolist() == [0.25]
    assert not state.stuck.numpy().any()


@pytest.mark.ranks(most=1, reason="on each rank the same")
def test_a_residual_that_is_not_a_number_changes_nothing() -> None:
    theta, state = _run(LeastSquares(tf.math.log, 1), SPRING(), [-1.0], 1)
    assert theta.tolist() == [[-1.0]]
    assert state.stuck.numpy().all()


@pytest.mark.ranks(most=1, reason="on each rank the same")
def test_a_direction_that_lowers_no_loss_is_forgotten() -> None:
    objective, optimizer = LeastSquares(lambda t: t - 1, 1), SPRING(damping=1e9)
    theta = tf.constant([[2.0]], tf.float64)
    before = optimizer.init(objective, theta)
    wrong = State(-tf.ones_like(theta), 0.5 * before.power, *before[2:])
    after, state, _ = step_of(objective, optimizer)(theta, wrong)
    assert float(after[0, 0]) == 2.0
    assert float(state.direction[0, 0]) == 0.0
    assert float(state.power[0]) == 1.0
    assert not state.stuck.numpy().any()


@pytest.mark.ranks(most=1, reason="on each rank the same")
@pytest.mark.parametrize("solver", ["kernel", "normal equations"])
def test_a_matrix_that_is_not_definite_is_damped_more(solver: str) -> None:
    """JᵀJ and J Jᵀ are [[8, 8], [8, 8]], exactly singular, as λ is lost beside 8."""
    optimizer = SPRING(damping=1e-30, solver=solver, momentum=0.0)
    objective = LeastSquares(lambda t: tf.stack([2 * (t[0] + t[1]), 2 * (t[0] + t[1])]), 2)
    theta, state = _run(objective, optimizer, [1.0, 3.0], 1)
    assert not state.stuck.numpy().any()
    np.testing.assert_allclose(theta[0].sum(), 0.0, rtol=0, atol=1e-3)


@pytest.mark.ranks(most=1, reason="arguments are checked on each rank")
@pytest.mark.parametrize(
    "options",
    [{"damping": 0.0}, {"momentum": 1.0}, {"momentum": -0.1}, {"trials": 0}, {"trials": 2.5}],
)
def test_arguments_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"SPRING: .*{next(iter(options))}"):
        SPRING(**options)


def _run(
    objective: LeastSquares, optimizer: SPRING, theta: Any, steps: int, dtype: str = "float64"
) -> tuple[np.ndarray, State]:
    at = tf.constant([theta], dtype)
    state = optimizer.init(objective, at)
    step = step_of(objective, optimizer)
    for _ in range(steps):
        at, state, _ = step(at, state)
    return at.numpy(), state
