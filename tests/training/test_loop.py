"""The compiled loop: chunks, recorded losses, and the end at what is not finite."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import NOT_FINITE, RUNNING, At, Engine, losses

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem
from sciml_par.problems import poisson as poisson_on
from sciml_par.training import Adam

pytestmark = pytest.mark.ranks(most=2, reason="two ranks show what more would")

POINTS, LOG_EVERY = 9, 4


def poisson() -> Problem:
    """Not on [-1, 1]: there, by symmetry, some gradients are zero, and Adam makes whole steps of
    their rounding errors, so that no two programs agree."""
    return poisson_on(domain=Interval(0, 1))


def make_engine(problem: Problem, *, log_every: int, learning_rate: float = 1e-3) -> Engine:
    """An engine that all ranks share."""
    return Engine(
        problem,
        sp.current_world().communicator,
        MLP(1, 1, width=4, depth=1, seed=5, dtype="float64"),
        points_per_rank=POINTS,
        optimizer=Adam(learning_rate),
        log_every=log_every,
    )


@cache
def poisson_engine(log_every: int) -> Engine:
    return make_engine(poisson(), log_every=log_every)


@cache
def losses_step_by_step(count: int) -> np.ndarray:
    """The loss after 0..count updates, each computed by itself."""
    engine = poisson_engine(LOG_EVERY)
    state, batch = engine.start(), engine.feed.whole(0)
    parameters, moments = state.parameters, state.optimizer
    found = []
    for step in range(1, count + 2):
        at = At(tf.constant(step), tf.ones([1, 1], tf.float64))
        parameters, moments, terms = engine.optimizer.step(
            engine.objective, parameters, moments, batch, at
        )
        found.append(float(tf.reduce_sum(terms)))
    return np.array(found)


# The records are each rank's own affair; with more ranks only their losses could be others.
@pytest.mark.parametrize("log_every", [1, LOG_EVERY, 100] if sp.size() == 1 else [LOG_EVERY])
def test_records_the_loss_after_every_multiple(log_every: int) -> None:
    engine = poisson_engine(log_every)
    ends = []
    for chunks in [(10,), (1, 1, 3, 5), (4, 6), (3, 1, 6)]:
        state, step = engine.start(), 0
        steps: list[int] = []
        found: list[float] = []
        for count in chunks:
            chunk = engine.advance(state, count, step=step)
            assert chunk.done == count and int(chunk.state.ended[0]) == RUNNING
            state, step = chunk.state, step + count
            assert int(state.steps[0]) == step
            steps += list(chunk.steps)
            found += list(losses(chunk))
        assert steps == list(range(0, sum(chunks), log_every))
        np.testing.assert_allclose(found, losses_step_by_step(10)[steps], rtol=1e-10)
        ends.append(b"".join(leaf.numpy().tobytes() for leaf in tf.nest.flatten(state)))
    assert len(set(ends)) == 1, "chunks change the result"


def blow_up_on_rank(culprit: int) -> Problem:
    """A residual that takes the root of what training makes negative, on one rank."""

    def residual(u: Any, x: Any) -> Any:
        if sp.rank() != culprit:
            return u(x) - 1.0
        return u(x) + 1.0 + tf.sqrt(u(x) - u(x)[0:1] + 1.0 - 30.0 * (u(x) - u(x[0:1])) ** 2)

    return Problem(Interval(0, 1), residual, name="blows up")


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_all_ranks_stop_at_the_same_step_with_the_last_good_parameters() -> None:
    culprit = sp.size() - 1
    engine = make_engine(blow_up_on_rank(culprit), log_every=1, learning_rate=0.1)
    chunk = engine.advance(engine.start(), 1000)
    assert int(chunk.state.ended[0]) == NOT_FINITE
    assert 0 < chunk.done < 1000 and int(chunk.state.steps[0]) == chunk.done
    assert np.all(np.isfinite(chunk.state.parameters)) and np.all(np.isfinite(chunk.state.best))
    assert np.all(np.isfinite(chunk.records))
    assert len(chunk.records) == chunk.done
    everyone = sp.current_world().communicator.allgather_object(
        (chunk.done, chunk.state.parameters.numpy().tobytes())
    )
    assert len(set(everyone)) == 1
    again = engine.advance(engine.start(), chunk.done)
    assert int(again.state.ended[0]) == RUNNING, "the step before was good"
    np.testing.assert_array_equal(again.state.parameters, chunk.state.parameters)


@pytest.mark.skipif("sp.size() > 2", reason="two ranks show what more would do")
def test_without_foreign_calls_it_says_so_and_computes_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> None:
        raise InputError("no foreign calls here.")

    engine = poisson_engine(LOG_EVERY)
    expected = engine.advance(engine.start(), 10).state.parameters
    monkeypatch.setattr("sciml_par.training.loop.loop.bridge", unavailable)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        engine = make_engine(poisson(), log_every=LOG_EVERY)
    texts = {str(w.message) for w in seen if "no foreign calls here" in str(w.message)}
    assert len(texts) == (sp.size() > 1 and sp.rank() == 0)
    assert all("not compiled as a whole" in text for text in texts)
    monkeypatch.setattr(
        "sciml_par.parallel.execution.dispatch.bridge", unavailable
    )  # it must not be needed
    found = engine.advance(engine.start(), 10).state.parameters
    np.testing.assert_allclose(found, expected, rtol=1e-10)
