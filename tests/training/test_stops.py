"""A training ends at a loss, without progress, after a time; and in phases."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from trainings import everywhere, quick

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.problems import Interval, poisson
from sciml_par.results import Result
from sciml_par.training import Adam, Checkpoint, Ensemble, NoProgress, TargetLoss, WallTime

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

small = partial(
    quick, poisson(k=1, domain=Interval(0, 1)), points=11, log_every=1, precision="float64"
)


def same_on_all_ranks(result: Result) -> bool:
    member = result.members[0]
    found = everywhere((member.steps, member.ended, member.loss, member.best_loss))
    return len(set(found)) == 1


@two
def test_a_target_is_met_at_the_first_step_that_reaches_it() -> None:
    whole = small(steps=300)
    losses = whole.members[0].losses
    target = float(losses[150])
    first = int(np.argmax(losses <= target))
    result = small(steps=300, stop=TargetLoss(target), log_every=7)
    member = result.members[0]
    assert (member.ended, member.steps) == ("target loss", first)
    assert member.loss == pytest.approx(losses[first], rel=1e-9)
    assert member.best_loss == pytest.approx(member.loss, rel=1e-12)
    assert same_on_all_ranks(result) and result.sound


@two
def test_no_progress_ends_a_training_that_stands_still() -> None:
    result = small(steps=5000, optimizer=Adam(1e-12), stop=[NoProgress(50)])
    member = result.members[0]
    assert (member.ended, member.steps) == ("no progress", 50)
    assert same_on_all_ranks(result)


def test_no_progress_begins_the_next_phase() -> None:
    phases = [(Adam(1e-12), 1000), (Adam(1e-2), 100)]
    result = small(phases=phases, stop=NoProgress(30))
    member = result.members[0]
    assert (member.ended, member.steps, member.steps_asked) == ("all steps", 130, 1100)
    assert list(member.loss_steps) == list(range(131))
    assert np.ptp(member.losses[:30]) < 1e-6 * member.losses[0]
    assert member.loss < 0.9 * member.losses[30]


def test_phases_begin_with_the_weights_and_not_the_moments_of_the_one_before() -> None:
    both = small(phases=[(Adam(1e-2), 20), (Adam(1e-3), 20)]).members[0]
    first = small(steps=20, optimizer=Adam(1e-2)).members[0]
    np.testing.assert_allclose(both.losses[:20], first.losses[:20], rtol=1e-9)
    through = small(steps=40, optimizer=Adam(1e-2)).members[0]
    assert abs(both.losses[25] - through.losses[25]) > 1e-3 * through.losses[25]


@two
def test_the_time_ends_all_ranks_at_the_same_step() -> None:
    result = small(steps=100_000_000, log_every=1000, stop=WallTime(seconds=0.5))
    member = result.members[0]
    assert member.ended == "wall time" and 0 < member.steps < 100_000_000
    assert same_on_all_ranks(result)


def test_a_training_that_is_stopped_has_the_history_of_the_steps_it_made(tmp_path: Path) -> None:
    """However many were asked for, and in whichever chunks they were made."""

    def enough(progress: Any) -> None:
        if progress.step > 1500:
            progress.stop("enough")

    stopped = small(steps=10**9, log_every=None, callbacks=enough).members[0]
    spacing = np.diff(stopped.loss_steps[:-1])
    assert (spacing == spacing[0]).all() and stopped.loss_steps[-1] == stopped.steps
    assert stopped.ended == "enough" and 500 < len(stopped.loss_steps) <= 1252
    assert len(set(everywhere(tuple(stopped.loss_steps)))) == 1
    # 5,030 steps cross the number at which the loop's own spacing changes.
    folder = sp.current_world().communicator.on_root(lambda: tmp_path)
    whole = small(steps=5030, log_every=None).members[0]
    half = {"checkpoint": Checkpoint(folder / "at"), "log_every": None}
    small(steps=1007, **half)
    resumed = small(steps=5030, resume=True, **half).members[0]
    assert whole.loss_steps.tolist() == [*range(0, 5030, 10), 5030]
    np.testing.assert_array_equal(resumed.loss_steps, whole.loss_steps)
    np.testing.assert_array_equal(resumed.losses, whole.losses)


def test_the_best_weights_are_kept_beside_the_last() -> None:
    """A rate that is far too large after some ordinary steps."""
    options = {"phases": [(Adam(1e-2), 50), (Adam(0.5), 25)]}
    best, last = (small(**options, keep=keep) for keep in ("best", "last"))
    member = best.members[0]
    at = int(np.argmin(member.losses))
    assert member.best_step == at and member.best_loss == pytest.approx(member.losses[at])
    assert member.loss > 2 * member.best_loss
    assert any("times its best" in remark for remark in best.remarks)
    weights = member.weights
    assert weights is not None and not np.array_equal(weights.best, weights.last)
    x = np.linspace(0, 1, 11)[:, None]
    for result, expected in ((best, weights.best), (last, weights.last)):
        network = result.networks[0]
        held = np.concatenate([np.asarray(v).ravel() for v in network.trainable_variables])
        np.testing.assert_array_equal(held, expected)
        np.testing.assert_allclose(result.members[0].prediction.u, network(x), rtol=1e-12)


def test_stacked_members_end_each_at_its_own_step() -> None:
    mode = Ensemble(members=4, learning_rates=[1e-3, 2e-3, 4e-3, 1e-2])
    whole = small(steps=400, mode=mode)
    target = max(member.losses[300] for member in whole.members)
    firsts = [int(np.argmax(member.losses <= target)) for member in whole.members]
    assert len(set(firsts)) == 4 and min(firsts) > 0
    result = small(steps=400, mode=mode, stop=TargetLoss(target))
    assert [member.steps for member in result.members] == firsts
    for member, first in zip(result.members, firsts, strict=True):
        assert member.ended == "target loss" and member.loss_steps[-1] == first
        assert member.losses[-1] == member.loss <= target


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"stop": keras.callbacks.EarlyStopping()}, "EarlyStopping of Keras; NoProgress"),
        (lambda: {"stop": NoProgress}, "the class NoProgress; make an object of it"),
        (lambda: {"stop": 1e-6}, r"TargetLoss\(1e-6\).*got 1e-06"),
        (lambda: {"stop": [TargetLoss(1.0), TargetLoss(2.0)]}, "two of TargetLoss"),
        (lambda: {"stop": TargetLoss(-1.0)}, "value to be a number ≥ 0; got -1.0"),
        (lambda: {"stop": NoProgress(0)}, "steps must be an integer of at least 1, got 0"),
        (lambda: {"stop": NoProgress(5, least_progress=2.0)}, r"in \[0, 1\); got 2.0"),
        (lambda: {"stop": WallTime()}, r"WallTime\(hours=8\)"),
        (lambda: {"phases": [(Adam(), 5)], "steps": 5}, "not both"),
        (lambda: {"phases": []}, "list of pairs"),
        (lambda: {"phases": [Adam()]}, "list of pairs"),
        (lambda: {"phases": [(Adam(), 0)]}, "steps must be an integer of at least 1, got 0"),
        (lambda: {"keep": "first"}, "keep to be one of best, last; got 'first'"),
    ],
)
def test_refuses_what_cannot_be_meant(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**make())
