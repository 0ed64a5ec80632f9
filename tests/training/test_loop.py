"""The compiled loop: chunks, recorded losses, and the end at what is not finite."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem
from sciml_par.problems import poisson as poisson_on
from sciml_par.training.loop import Loop, State
from sciml_par.training.objective import Objective
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.rank_points import count_points, points_of_rank

POINTS, LOG_EVERY = 9, 4


def poisson() -> Problem:
    """Not on [-1, 1]: there, by symmetry, some gradients are zero, and Adam makes whole steps of
    their rounding errors, so that no two programs agree."""
    return poisson_on(domain=Interval(0, 1))


def make_loop(
    problem: Problem, *, log_every: int, learning_rate: float = 1e-3
) -> tuple[Loop, State, Objective]:
    """A loop that all ranks share."""
    everyone = sp.current_world().communicator
    mine = points_of_rank(
        problem, POINTS, boundary_points=None, rank=everyone.rank, size=everyone.size
    )
    model = MLP(1, 1, width=4, depth=1, seed=5, dtype="float64")
    objective = Objective(
        model,
        mine,
        totals=count_points(mine, everyone),
        communicator=everyone,
        dtype="float64",
    )
    loop = Loop(
        objective, Adam(learning_rate=learning_rate), log_every=log_every, communicator=everyone
    )
    start = loop.start([v.numpy() for v in model.trainable_variables], "float64")
    return loop, start, objective


@cache
def poisson_loop(log_every: int) -> tuple[Loop, State, Objective]:
    return make_loop(poisson(), log_every=log_every)


@cache
def losses_step_by_step(count: int) -> np.ndarray:
    """The loss after 0..count updates, each computed by itself."""
    _, state, objective = poisson_loop(LOG_EVERY)
    optimizer = Adam()
    parameters, moments = state.parameters, state.moments
    losses = []
    for step in range(1, count + 2):
        loss, gradient = objective.value_and_gradient(parameters)
        losses.append(float(loss))
        parameters, moments = optimizer.update(parameters, gradient, moments, tf.constant(step))
    return np.array(losses)


# The records are each rank's own affair; with more ranks only their losses could be others.
@pytest.mark.parametrize("log_every", [1, LOG_EVERY, 100] if sp.size() == 1 else [LOG_EVERY])
def test_records_the_loss_after_every_multiple(log_every: int) -> None:
    loop, start, _ = poisson_loop(log_every)
    ends = []
    for chunks in [(10,), (1, 1, 3, 5), (4, 6), (3, 1, 6)]:
        state = start
        steps, losses = [], []
        for count in chunks:
            chunk = loop.advance(state, count)
            assert chunk.finite
            assert chunk.state.step == state.step + count
            state = chunk.state
            steps += list(chunk.steps)
            losses += list(chunk.losses)
        assert steps == list(range(0, sum(chunks), log_every))
        np.testing.assert_allclose(losses, losses_step_by_step(10)[steps], rtol=1e-10)
        ends.append(state.parameters.numpy().tobytes())
    assert len(set(ends)) == 1, "chunks change the result"


@pytest.mark.skipif("sp.size() > 1", reason="the records are each rank's own affair")
def test_the_longest_chunk_fills_the_records_and_no_more() -> None:
    loop, start, _ = poisson_loop(LOG_EVERY)
    for step in (0, 11, 12):
        longest = loop.longest_chunk(step)
        chunk = loop.advance(State(step, start.parameters, start.moments), longest)
        multiples = np.arange(0, step + longest, LOG_EVERY)
        np.testing.assert_array_equal(chunk.steps, multiples[multiples >= step])
        assert len(chunk.steps) == 1024
        assert np.all(chunk.losses > 0)


def blow_up_on_rank(culprit: int) -> Problem:
    """A residual that takes the root of what training makes negative, on one rank."""

    def residual(u: Any, x: Any) -> Any:
        if sp.rank() != culprit:
            return u(x) - 1.0
        return u(x) + 1.0 + tf.sqrt(u(x) - u(x)[0:1] + 1.0 - 30.0 * (u(x) - u(x[0:1])) ** 2)

    return Problem(Interval(0, 1), residual, name="blows up")


def test_all_ranks_stop_at_the_same_step_with_the_last_good_parameters() -> None:
    culprit = sp.size() - 1
    loop, start, _ = make_loop(blow_up_on_rank(culprit), log_every=1, learning_rate=0.1)
    chunk = loop.advance(start, 1000)
    assert not chunk.finite
    assert 0 < chunk.state.step < 1000
    assert np.all(np.isfinite(chunk.state.parameters))
    assert np.all(np.isfinite(chunk.losses))
    assert len(chunk.losses) == chunk.state.step
    everyone = sp.current_world().communicator.allgather_object(
        (chunk.state.step, chunk.state.parameters.numpy().tobytes())
    )
    assert len(set(everyone)) == 1
    again = loop.advance(start, chunk.state.step)
    assert again.finite, "the step before was good"
    np.testing.assert_array_equal(again.state.parameters, chunk.state.parameters)


@pytest.mark.skipif("sp.size() > 2", reason="two ranks show what more would do")
def test_without_foreign_calls_it_says_so_and_computes_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> None:
        raise InputError("no foreign calls here.")

    loop, start, _ = poisson_loop(LOG_EVERY)
    expected = loop.advance(start, 10).state.parameters
    monkeypatch.setattr("sciml_par.training.loop.bridge", unavailable)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loop, start, _ = make_loop(poisson(), log_every=LOG_EVERY)
    texts = [str(w.message) for w in seen if "no foreign calls here" in str(w.message)]
    assert len(texts) == (sp.size() > 1 and sp.rank() == 0)
    assert all("not compiled as a whole" in text for text in texts)
    monkeypatch.setattr(
        "sciml_par.parallel.execution.dispatch.bridge", unavailable
    )  # it must not be needed
    found = loop.advance(start, 10).state.parameters
    np.testing.assert_allclose(found, expected, rtol=1e-10)
