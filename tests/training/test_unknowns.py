"""Unknown coefficients are found with the solution, on any number of ranks."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, ParameterLayout, trace_terms
from trainings import quick, tiny

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Normal,
    Observations,
    Problem,
    Unknown,
    derivative,
)
from sciml_par.results import Result
from sciml_par.training import LBFGS, Adam, AdamW, Checkpoint, Ensemble, LevenbergMarquardt
from sciml_par.training.members.stack import MemberSetup, _computation
from sciml_par.training.optimizers.keras_optimizer import KerasOptimizer

pytestmark = pytest.mark.beside
RATE = 1.5
SEEN = np.linspace(0.05, 1, 9)[:, None]
POINTS = np.linspace(0, 1, 17)[:, None]  # not divided evenly by any number of ranks here
local = pytest.mark.ranks(most=1, reason="nothing of it depends on the number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
three = pytest.mark.ranks(most=3, reason="three ranks divide the points unevenly")


def decay(unknown: Unknown | None = None) -> Problem:
    """u' = −k u with u(0) = 1, and nine observations."""
    return Problem(
        Interval(0, 1),
        lambda u, x, *, k: derivative(u, x, 0) + k * u(x),
        conditions=[Observations(SEEN, np.exp(-RATE * SEEN))],
        exact=lambda x: np.exp(-RATE * x),
        unknowns={"k": unknown or Unknown(0.5, lower=0, true=RATE)},
        name="decay",
    )


small = partial(quick, points=POINTS, precision="float64")


@cache
def found() -> Result:
    return small(decay(), optimizer=LevenbergMarquardt(), steps=40, log_every=1)


@two
def test_the_coefficient_is_found_and_told() -> None:
    result = found()
    (member,) = result.members
    unknown = result.unknowns["k"]
    assert abs(member.unknowns["k"] - RATE) < 1e-4
    assert unknown.mean == member.unknowns["k"] and unknown.true == RATE
    assert unknown.relative_error == pytest.approx(abs(unknown.mean - RATE) / RATE)
    assert unknown.members.shape == (1,) and np.isnan(unknown.deviation)
    history = member.history.unknowns["k"]
    assert history.shape == member.loss_steps.shape
    assert history[0] == pytest.approx(0.5) and history[-1] == member.unknown_values.last[0]
    best = np.flatnonzero(member.loss_steps == member.best_step)
    assert history[best] == pytest.approx(member.unknown_values.best[0], rel=1e-13)
    everyone = sp.current_world().communicator.allgather_object((unknown.mean, history.tobytes()))
    assert len(set(everyone)) == 1
    assert f"k = {unknown.mean:.8g} (relative error" in repr(result)


@local
def test_what_is_saved_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = found()
    result.save(tmp_path / "run", plots=False)
    result.print()
    printed = capsys.readouterr().out
    assert "error of k" in printed and f"unknowns: k = {result.unknowns['k']!r}\n" in printed
    loaded = Result.load(tmp_path / "run")
    (mine,), (theirs,) = result.members, loaded.members
    assert theirs.unknowns == mine.unknowns
    np.testing.assert_array_equal(theirs.history.unknowns["k"], mine.history.unknowns["k"])
    assert theirs.unknown_values.true == mine.unknown_values.true
    assert list(theirs.history.terms) == list(mine.history.terms)
    assert loaded.using("last").members[0].unknowns["k"] == mine.unknown_values.last[0]
    # The network alone is what Keras saves, and it predicts.
    x = np.linspace(0, 1, 7)[:, None]
    np.testing.assert_allclose(loaded.predict(x).mean, result.predict(x).mean, atol=1e-14)
    assert loaded.networks[0].count_params() == mine.weights.best.size == 13


@local
def test_a_resumed_training_finds_the_same_bit_for_bit(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, every=20)
    again = partial(small, optimizer=LevenbergMarquardt(), log_every=1)
    again(decay(), steps=20, checkpoint=checkpoint)
    result = again(decay(), steps=40, checkpoint=checkpoint, resume=True)
    for mine, theirs in zip(result.members, found().members, strict=True):
        ours, others = mine.unknown_values, theirs.unknown_values
        assert ours.last.tobytes() == others.last.tobytes()
        assert ours.best.tobytes() == others.best.tobytes()
        assert ours.history.tobytes() == others.history.tobytes()
    with pytest.raises(InputError, match="unknown 'k'"):
        again(decay(Unknown(0.6, lower=0)), steps=40, checkpoint=checkpoint, resume=True)


@three
def test_members_have_values_of_their_own() -> None:
    unknown = Unknown(1.0, lower=0, spread=0.2)
    mode = Ensemble(members_per_rank=2)
    result = small(decay(unknown), mode=mode, optimizer=Adam(1e-2), steps=30, log_every=10)
    starts = [m.history.unknowns["k"][0] for m in result.members]
    drawn = [float(unknown.values(unknown.initial("k", m.seed))) for m in result.members]
    np.testing.assert_allclose(starts, drawn, rtol=1e-14)
    assert len(set(starts)) == len(starts) == 2 * sp.size()
    assert all(len(member.stacked_with) == 2 for member in result.members)
    values = [member.unknowns["k"] for member in result.members]
    assert np.all(np.array(values) != starts)
    of_all = result.unknowns["k"]
    np.testing.assert_array_equal(of_all.members, values)
    np.testing.assert_allclose(of_all.mean, np.mean(values))
    np.testing.assert_allclose(of_all.deviation, np.std(values, ddof=1))
    assert of_all.true is None and np.isnan(of_all.relative_error)


@local
@pytest.mark.long
def test_a_prior_determines_what_correlated_observations_do_not() -> None:
    """a u' + b u = 0 tells b/a alone: a is its prior, and b/a that of least squares."""
    covariance = 0.02**2 * (np.exp(-np.abs(SEEN - SEEN.T) / 0.2) + 0.1 * np.eye(len(SEEN)))
    errors = np.linalg.cholesky(covariance) @ np.random.default_rng(1).normal(size=len(SEEN))
    values = np.exp(-RATE * SEEN[:, 0]) + errors
    problem = Problem(
        Interval(0, 1),
        lambda u, x, *, a, b: a * derivative(u, x, 0) + b * u(x),
        conditions=[Dirichlet(1.0, on="left"), Observations(SEEN, values, noise=covariance)],
        unknowns={"a": Unknown(1.0, lower=0, prior=Normal(2.0, 0.1)), "b": Unknown(1.0, lower=0)},
    )
    result = small(problem, optimizer=LevenbergMarquardt(), steps=120)
    assert list(result.members[0].history.unknowns["a"])[0] == pytest.approx(1.0)
    a, b = (result.unknowns[name].mean for name in "ab")
    assert abs(a - 2) < 1e-3  # a hundredth of its deviation
    rates = np.linspace(1.3, 1.7, 4001)
    apart = np.exp(-rates * SEEN) - values[:, None]
    chi = np.sum(apart * np.linalg.solve(covariance, apart), axis=0)
    at = np.argmin(chi)
    deviation = (rates[1] - rates[0]) / np.sqrt((chi[at - 1] - 2 * chi[at] + chi[at + 1]) / 2)
    assert abs(b / a - rates[at]) < 0.02 * deviation


@local
def test_members_one_by_one_and_the_history_of_one_that_has_ended() -> None:
    def branching(u: Any, x: Any, *, k: Any) -> Any:
        """What has no form for several members at once."""
        r = derivative(u, x, 0) + k * u(x)
        return tf.cond(tf.reduce_mean(r) > 0, lambda: r, lambda: -r)

    problem = Problem(
        Interval(0, 1),
        branching,
        conditions=[Observations(SEEN, np.exp(-RATE * SEEN))],
        unknowns={"k": Unknown(0.5, lower=0, spread=0.1)},
    )
    # The others are too large for any loss to stay finite. Two members might be one on each thread.
    rates = [1e-2, 1e300, 1e300]
    mode = Ensemble(members_per_rank=3, learning_rates=rates)
    result = small(problem, mode=mode, optimizer=Adam(1e-2), steps=30, log_every=1)
    first, second, _ = result.members
    assert first.stacked_with == (0,) and second.ended == "not finite"
    assert len(second.history.unknowns["k"]) < len(first.history.unknowns["k"]) == 31
    assert np.isfinite(first.history.unknowns["k"]).all()
    assert result.unknowns["k"].mean == first.unknowns["k"]


@local
def test_a_line_search_moves_it() -> None:
    """The steps of all optimizers on an unknown are compared in test_optimizers.py."""
    result = small(decay(), optimizer=LBFGS(), steps=150)
    assert abs(result.members[0].unknowns["k"] - RATE) < 0.8 * (RATE - 0.5)


@local
def test_arrays_and_single_precision() -> None:
    problem = Problem(
        Interval(0, 1),
        lambda u, x, *, c: u(x) - c[0] - c[1] * x,
        conditions=[Observations(SEEN, 3.0 - 2.0 * SEEN)],
        unknowns={"c": Unknown([1.0, 0.0], true=[3.0, -2.0])},
    )
    result = small(problem, optimizer=Adam(3e-2), steps=600, precision="float32")
    assert result.members[0].unknowns["c"].shape == (2,)
    assert result.members[0].history.unknowns["c"].shape[1:] == (2,)
    assert result.unknowns["c"].relative_error < 0.1


@local
def test_weight_decay_leaves_it_alone() -> None:
    layout = ParameterLayout.of([tf.Variable([[1.0, 2.0]], name="w")], decay().unknowns)
    assert (layout.size, layout.size_of_network, layout.names) == (3, 2, ("w:0", "unknowns/k"))
    theta = tf.constant([[1.0, 2.0, 3.0]])
    optimizer = AdamW(0.1, weight_decay=0.5)
    state = optimizer.start(layout, theta)
    one, zero = tf.ones([1, 1]), tf.zeros_like(theta)
    after, _ = optimizer.update(layout, theta, zero, state, one, tf.constant(1))
    np.testing.assert_allclose(after, [[0.5, 1.0, 3.0]])
    given = keras.optimizers.AdamW(1e-3)
    with pytest.raises(InputError, match=r"exclude_from_weight_decay\(var_names=\['\^k\$'\]\)"):
        KerasOptimizer.of(given).check(layout, 1, "float32")
    given.exclude_from_weight_decay(var_names=["^k$"])
    KerasOptimizer.of(given).check(layout, 1, "float32")
    KerasOptimizer.of(keras.optimizers.Adam()).check(layout, 1, "float32")


@local
def test_which_members_are_one_computation() -> None:
    def key(unknown: Unknown) -> Any:
        engine = Engine(decay(unknown), sp.current_world().alone, tiny, points=POINTS)
        network = engine.field.args[1]  # type: ignore[attr-defined]
        problem, arrays = decay(unknown), engine.feed.arrays
        traced = trace_terms(problem, network, dtype="float64", arrays=arrays)
        return _computation(MemberSetup(0, 0, problem, network, engine.feed, 1.0, traced=traced))

    assert key(Unknown(1.0, lower=0)) is not None
    assert key(Unknown(1.0, lower=0)) == key(Unknown(1.0, lower=0, spread=0.1, true=2.0))
    assert key(Unknown(2.0, scale=1.0)) == key(Unknown(3.0, scale=1.0))
    assert key(Unknown(1.0)) != key(Unknown(1.0, lower=0)) != key(Unknown(1.0, lower=-1, upper=3))


@local
def test_names_of_other_packages() -> None:
    with pytest.raises(InputError, match=r"Problem\(\.\.\., unknowns=\{'D': Unknown\(1\.0\)\}\)"):
        small(decay(), external_trainable_variables=[tf.Variable(1.0)])
