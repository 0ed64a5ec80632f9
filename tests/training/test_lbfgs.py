"""L-BFGS: known minima, SciPy's number of evaluations, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from functions import (
    BARRIER_MINIMUM,
    STARTS,
    Run,
    all_functions,
    goes_on_from_its_state,
    members,
    members_are_independent,
    moving,
    only,
    quadratic,
    rosenbrock,
    stays_where_nothing_can_be_improved,
)
from scipy.optimize import minimize

from sciml_par.errors import InputError
from sciml_par.problems import poisson
from sciml_par.training import LBFGS, Ensemble, train
from sciml_par.training.optimizers.convert import as_optimizer

pytestmark = pytest.mark.ranks(most=1, reason="its functions are the same on all ranks")

PROBLEMS: dict[str, Callable[..., Any]] = {"quadratic": quadratic, "Rosenbrock": rosenbrock}


@pytest.fixture(scope="module")
def run() -> Run:
    """With as few pairs as let the oldest one be overwritten."""
    return Run(LBFGS(memory=5), all_functions)


def scipy_evaluations(function: Any, start: np.ndarray, loss: float) -> int:
    """How many evaluations L-BFGS-B makes until an iterate has less than this loss."""

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta = tf.constant(x[None])
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = function(theta)
        count.append(1)
        return float(value[0]), tape.gradient(value, theta)[0].numpy()

    def callback(intermediate_result: Any) -> None:
        if intermediate_result.fun < loss:
            raise StopIteration

    count: list[int] = []
    options = {"maxcor": 5, "ftol": 0.0, "gtol": 0.0, "maxiter": 1000}
    minimize(both, start, jac=True, method="L-BFGS-B", options=options, callback=callback)
    return len(count)


@pytest.mark.parametrize("name", PROBLEMS)
def test_finds_the_minimum_with_about_as_many_evaluations_as_scipy(name: str, run: Run) -> None:
    ours = theirs = 0
    for j in members(name):
        run.start(STARTS).until(1e-14, member=j, most=300)
        if not np.allclose(run.theta[j], 1.0, atol=1e-6):
            # The chain of Rosenbrock's function has a second minimum.
            assert name == "Rosenbrock"
            continue
        assert run.evaluations < 1.5 * run.number
        ours += run.evaluations
        theirs += scipy_evaluations(PROBLEMS[name], STARTS[j], 1e-14)
    assert 0 < ours < 1.5 * theirs


def test_members_are_independent(run: Run) -> None:
    members_are_independent(run)


def test_goes_on_from_its_state_bit_for_bit(run: Run) -> None:
    goes_on_from_its_state(run)


def test_stays_where_nothing_can_be_improved(run: Run) -> None:
    stays_where_nothing_can_be_improved(run, LBFGS(memory=5).report)


def test_the_loss_never_rises_and_is_that_of_the_parameters(run: Run) -> None:
    run.start(STARTS).go(30)
    losses = np.array(run.losses)
    assert (np.diff(losses, axis=0) <= 0).all()
    np.testing.assert_allclose(losses[0], all_functions(tf.constant(STARTS)), rtol=1e-12)


def test_values_that_are_kept_are_not_used_for_other_parameters(run: Run) -> None:
    run.start(STARTS).go(3)
    run.parameters = tf.constant(STARTS * 0.9)
    run.go(1)
    np.testing.assert_allclose(run.losses[-1], all_functions(tf.constant(STARTS * 0.9)), rtol=1e-12)


def test_points_without_a_number_are_stepped_back_from(run: Run) -> None:
    (j,) = members("barrier")
    run.start(STARTS).go(40, running=only(j))
    np.testing.assert_allclose(run.theta[j], BARRIER_MINIMUM, atol=1e-7)
    assert np.isfinite(run.losses).all()


def test_a_loss_that_is_no_number_is_told(run: Run) -> None:
    starts = STARTS.copy()
    starts[1] = np.nan
    run.start(starts).go(3)
    losses = np.array(run.losses)
    assert np.isnan(losses[:, 1]).all() and np.isfinite(np.delete(losses, 1, axis=1)).all()
    assert np.isfinite(np.delete(run.theta, 1, axis=0)).all()


def test_changing_points_begin_every_step_anew() -> None:
    run = Run(LBFGS(), moving, same_points=False).start(np.zeros((1, 2)))
    for center in (1.0, 3.0, -2.0):
        before = run.theta
        run.go(1, batch=center)
        assert run.losses[-1] == pytest.approx(0.5 * np.sum((before - center) ** 2))
    # On a paraboloid the first pair gives the exact scale: from then on steps end at the centers.
    np.testing.assert_allclose(run.theta, -2.0, rtol=1e-9)
    run.go(1, batch=-2.0)
    assert not LBFGS().report(run.state).stuck.numpy()[0]
    run.go(4, batch=5.0)
    np.testing.assert_allclose(run.theta, 5.0, rtol=1e-9)


def test_is_described_and_taken_as_an_optimizer() -> None:
    optimizer = LBFGS(memory=7)
    assert as_optimizer(optimizer) is optimizer
    assert optimizer.describe()["memory"] == "7"
    assert optimizer.key == LBFGS(memory=7).key != LBFGS().key
    assert optimizer.with_ranks(4) == optimizer


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"memory": 0}, "memory"),
        ({"evaluations": 2.5}, "evaluations"),
        ({"sufficient_decrease": 0.7}, "sufficient_decrease"),
        ({"curvature": 1.0}, "curvature"),
        ({"sufficient_decrease": 0.4, "curvature": 0.3}, "sufficient_decrease < curvature"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        LBFGS(**options)


def test_learning_rates_of_members_are_refused() -> None:
    rates = Ensemble(members=2, learning_rates=[1e-3, 1e-2])
    with pytest.raises(InputError, match="learning rate, which LBFGS has not"):
        train(poisson(), optimizer=LBFGS(), mode=rates, steps=2, progress=False)
