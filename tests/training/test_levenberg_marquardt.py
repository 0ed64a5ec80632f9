"""Levenberg–Marquardt on least squares whose solutions are known, without networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from one_rank import LeastSquares, step_of

from sciml_par.errors import InputError
from sciml_par.training import LevenbergMarquardt
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import State

pytestmark = pytest.mark.ranks(most=1, reason="local; trainings are in test_least_squares_training")
Function = Callable[[Any], Any]


def minimize(
    residual: Function, starts: Any, steps: int, **options: Any
) -> tuple[np.ndarray, np.ndarray, list[State]]:
    """θ after each step, [steps + 1, M, p], the losses there, [steps + 1, M], and the states."""
    theta = tf.constant(np.atleast_2d(starts), tf.float64)
    objective: Any = LeastSquares(residual, theta.shape[1])
    optimizer = LevenbergMarquardt(**options)
    state = optimizer.init(objective, theta)
    thetas, losses, states = [theta.numpy()], [], []
    step = step_of(objective, optimizer)
    for _ in range(steps):
        theta, state, terms = step(theta, state)
        thetas.append(theta.numpy())
        losses.append(tf.reduce_sum(terms, axis=1).numpy())
        states.append(state)
    squares = tf.reduce_sum(objective.residuals(theta, ())[0] ** 2, axis=1)
    return np.array(thetas), np.array([*losses, squares.numpy()]), states


RNG = np.random.default_rng(3)
MATRIX, RIGHT = RNG.normal(size=(8, 3)), RNG.normal(size=8)


def linear(theta: Any) -> Any:
    return tf.linalg.matvec(tf.constant(MATRIX), theta) - RIGHT


def rosenbrock(theta: Any) -> Any:
    return tf.stack([10 * (theta[1] - theta[0] ** 2), 1 - theta[0]])


def jennrich_and_sampson(theta: Any) -> Any:
    i = tf.range(1.0, 11.0, dtype=tf.float64)
    return 2 + 2 * i - tf.exp(i * theta[0]) - tf.exp(i * theta[1])


def powell(theta: Any) -> Any:
    """J is singular at the minimum."""
    a, b, c, d = tf.unstack(theta)
    root = np.sqrt([5.0, 10.0])
    return tf.stack([a + 10 * b, root[0] * (c - d), (b - 2 * c) ** 2, root[1] * (a - d) ** 2])


def test_one_step_solves_a_linear_problem_where_the_damping_goes_to_zero() -> None:
    expected = np.linalg.lstsq(MATRIX, RIGHT, rcond=None)[0]
    errors = []
    for damping in (1e-2, 1e-14):
        thetas, _, _ = minimize(linear, [[1.0, -2.0, 3.0]], 1, damping=damping)
        errors.append(np.linalg.norm(thetas[1, 0] - expected))
    assert errors[0] > 1e-4
    assert errors[1] < 1e-13
    regularized = np.linalg.solve(
        MATRIX.T @ MATRIX + 1e-2 * np.eye(3), MATRIX.T @ (RIGHT - MATRIX @ [1.0, -2.0, 3.0])
    )
    thetas, _, _ = minimize(linear, [[1.0, -2.0, 3.0]], 1, damping=1e-2)
    np.testing.assert_allclose(thetas[1, 0] - thetas[0, 0], regularized, rtol=1e-12)


STARTS = [[-1.2, 1.0], [3.0, -4.0]]


@pytest.mark.parametrize(
    ("residual", "starts", "minimum", "at", "options"),
    [
        (rosenbrock, STARTS, 0.0, [1.0, 1.0], {}),
        (rosenbrock, STARTS, 0.0, [1.0, 1.0], {"geodesic": False}),
        (rosenbrock, STARTS, 0.0, [1.0, 1.0], {"scale_columns": True}),
        (jennrich_and_sampson, [[0.3, 0.4]], 124.3621823, [0.2578252, 0.2578252], {}),
        (powell, [[3.0, -1.0, 0.0, 1.0]], 0.0, [0.0] * 4, {}),
    ],
)
def test_known_minima(
    residual: Function, starts: Any, minimum: float, at: Any, options: dict[str, Any]
) -> None:
    thetas, losses, _ = minimize(residual, starts, 60, **options)
    assert (np.diff(losses, axis=0) <= 1e-15 * losses[:-1]).all(), "a step has raised the loss"
    np.testing.assert_allclose(losses[-1], minimum, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(thetas[-1], np.broadcast_to(at, thetas[-1].shape), atol=1e-3)


def test_members_make_the_steps_that_they_make_alone() -> None:
    starts = np.array([[-1.2, 1.0], [3.0, -4.0], [1.0, 1.0]])
    together, _, states = minimize(rosenbrock, starts, 12)
    for j, start in enumerate(starts[:2]):
        alone, _, own = minimize(rosenbrock, [start], 12)
        np.testing.assert_array_equal(together[:, j], alone[:, 0])
        assert [s.stuck[j].numpy() for s in states] == [s.stuck[0].numpy() for s in own]


def test_at_the_minimum_it_is_stuck_and_nothing_moves() -> None:
    thetas, _, states = minimize(rosenbrock, [[1.0, 1.0]], 3)
    assert all(state.stuck.numpy().all() for state in states)
    assert (thetas == 1.0).all()
    assert float(states[0].step_length[0]) == 0.0


@pytest.mark.parametrize("scaled", [False, True])
def test_parameters_without_influence_stay_where_they_are(scaled: bool) -> None:
    def first_alone(theta: Any) -> Any:
        return tf.stack([tf.exp(theta[0]) - 2, theta[0] * 0 + 0.5])

    thetas, losses, _ = minimize(first_alone, [[3.0, 7.0]], 30, scale_columns=scaled)
    np.testing.assert_allclose(thetas[-1, 0], [np.log(2), 7.0], rtol=1e-7)
    np.testing.assert_allclose(losses[-1], 0.25)
    _, losses, states = minimize(lambda t: 0 * t + 1.0, [[3.0, 7.0]], 2, scale_columns=scaled)
    assert (losses == 2.0).all()
    assert states[-1].stuck.numpy().all()


def test_more_parameters_than_residuals() -> None:
    def few(theta: Any) -> Any:
        return tf.stack([tf.reduce_sum(theta**2) - 1, tf.sin(theta[0])])

    _, losses, _ = minimize(few, np.full((1, 9), 0.7), 40)
    assert losses[-1, 0] < 1e-25


def test_trial_points_where_the_residual_is_not_a_number_are_passed_over() -> None:
    """The first full step goes to where the root does not exist."""

    def rooted(theta: Any) -> Any:
        return tf.stack([tf.sqrt(theta[0]) - 0.01, theta[1] - 1])

    thetas, losses, states = minimize(rooted, [[4.0, 0.0]], 40, damping=1e-8, geodesic=False)
    full_step = 4 - 2 * 2 * (2 - 0.01)
    assert full_step < 0
    assert np.isfinite(thetas).all()
    assert (np.diff(losses, axis=0) <= 0).all()
    np.testing.assert_allclose(thetas[-1, 0], [1e-4, 1.0], rtol=1e-3)
    assert not states[0].stuck.numpy().any()


def test_a_loss_that_is_not_a_number_is_given_back() -> None:
    thetas, losses, _ = minimize(tf.sqrt, [[-1.0], [4.0]], 1)
    assert np.isnan(losses[0, 0])
    assert np.isfinite(losses[:, 1]).all()
    assert thetas[1, 1, 0] < 4.0


def cube(theta: Any) -> Any:
    return theta**3 - 8


@pytest.mark.parametrize(("start", "added"), [(1.9, True), (1.4, False)])
def test_the_acceleration_is_added_where_it_is_less_than_half_the_step(
    start: float, added: bool
) -> None:
    thetas, _, _ = minimize(cube, [[start]], 1, damping=1e-12, trials=1)
    slope, second, third = 3 * start**2, 6 * start, 6.0
    v = -cube(start) / slope
    # (2/h) ((r(θ + h v) − r)/h − J v) of a cubic is r″ v² + h r‴ v³/3, with h = 0.1.
    a = -0.5 / slope * (second * v**2 + 0.1 * third * v**3 / 3)
    assert (abs(a) < 0.5 * abs(v)) == added
    np.testing.assert_allclose(thetas[1, 0, 0] - start, v + added * a, rtol=1e-9)


def test_the_damping_falls_by_three_at_most_and_stays_within_reach_of_the_trials() -> None:
    """It must be able to come back to 1 in the trials of one step after any number of good ones."""
    optimizer = LevenbergMarquardt()
    objective: Any = LeastSquares(lambda t: t * tf.constant([1.0, 0.01], tf.float64), 2)
    theta = tf.constant([[1e150, 1e150]], tf.float64)
    state = optimizer.init(objective, theta)
    dampings = [float(state.damping[0])]
    step = step_of(objective, optimizer)
    for _ in range(60):
        theta, state, _ = step(theta, state)
        dampings.append(float(state.damping[0]))
    ratios = np.array(dampings[1:]) / dampings[:-1]
    assert ratios.min() > 1 / 3 - 1e-12
    growth = 2.0 ** sum(range(1, optimizer.trials))
    assert min(dampings) * growth >= 1e-2


def test_what_is_given_wrongly_is_refused() -> None:
    for wrong in (0, -1, float("nan"), float("inf"), True, "1e-2"):
        with pytest.raises(InputError, match="damping to be a number > 0"):
            LevenbergMarquardt(damping=wrong)  # type: ignore[arg-type]
    for wrong in (0, 1.5, None):
        with pytest.raises(InputError, match="trials must be an integer of at least 1"):
            LevenbergMarquardt(trials=wrong)  # type: ignore[arg-type]
    for name in ("geodesic", "scale_columns"):
        with pytest.raises(InputError, match=f"{name} to be True or False"):
            LevenbergMarquardt(**{name: "yes"})  # type: ignore[arg-type]
    for wrong in ("least squares", True, LeastSquares):
        with pytest.raises(InputError, match="start to be 'least-squares' or None"):
            LevenbergMarquardt(start=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        LevenbergMarquardt(1e-3)  # type: ignore[misc]
