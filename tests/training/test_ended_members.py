"""A member whose loss is not finite ends alone; one that ends far above its best is marked."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from trainings import tiny, warned

import sciml_par.parallel as sp
from sciml_par.errors import TrainingError
from sciml_par.problems import Interval, Problem, function_approximation
from sciml_par.programs import conclude
from sciml_par.results import Member
from sciml_par.training import Adam, Ensemble, Result, train

MEMBERS, STEPS = 2, 400
pytestmark = [
    pytest.mark.filterwarnings("ignore:train. member:RuntimeWarning"),
    pytest.mark.ranks(most=2, reason="two ranks show what more would"),
]
several = pytest.mark.skipif("sp.size() == 1", reason="a lone member has no others")


def blows_up_later() -> Problem:
    """On the last rank a root of what training makes negative, after some steps."""

    def residual(u: Any, x: Any) -> Any:
        if sp.rank() < sp.size() - 1:
            return u(x) - 1.0
        return u(x) - 1.0 + 1e-3 * tf.sqrt(0.9 - u(x))

    return Problem(Interval(0, 1), residual, exact=lambda x: 0 * x + 1.0, name="one")


@cache
def ensemble() -> Result:
    return train(
        blows_up_later(),
        mode=Ensemble(members_per_rank=MEMBERS),
        points=9,
        steps=STEPS,
        log_every=1,
        evaluation_points=11,
        optimizer=Adam(learning_rate=1e-2),
        progress=False,
    )


def of_last_rank(result: Result) -> tuple[Member, ...]:
    return result.members[-MEMBERS:]


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@several
def test_the_others_finish_and_all_ranks_know() -> None:
    result = ensemble()
    statuses = [member.status for member in result.members]
    finished = ["finished"] * (MEMBERS * (sp.size() - 1))
    assert statuses == finished + ["not finite"] * MEMBERS
    assert not result.sound
    assert all(m.steps == STEPS and m.loss < 1e-2 for m in result.members[:-MEMBERS])
    everyone = sp.current_world().communicator.allgather_object(
        [(m.status, m.steps, m.loss, m.losses.tolist()) for m in result.members]
    )
    assert everyone == [everyone[0]] * sp.size()


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@several
def test_it_has_its_best_weights() -> None:
    result = ensemble()
    for member in of_last_rank(result):
        assert 0 < member.steps < STEPS == member.steps_asked
        np.testing.assert_array_equal(member.loss_steps, np.arange(member.steps))
        assert np.isfinite(member.losses).all()
        assert member.loss == member.best_loss == member.losses[member.best_step]
        assert member.loss == pytest.approx(member.losses.min(), rel=1e-6)
    if sp.rank() < sp.size() - 1:
        return
    for member, network in zip(of_last_rank(result), result.networks, strict=True):
        u = network(Interval(0, 1).grid(9).astype("float32")).numpy().astype(np.float64)
        loss = np.mean((u - 1.0 + 1e-3 * np.sqrt(0.9 - u)) ** 2)
        np.testing.assert_allclose(loss, member.loss, rtol=1e-4)


def pole(*, everywhere: bool) -> Problem:
    last = sp.size() - 1
    return Problem(
        Interval(0, 1),
        lambda u, x: u(x) / (x if everywhere or sp.rank() == last else x + 1.0),
        name="pole",
    )


@several
def test_a_loss_that_is_never_finite(capsys: pytest.CaptureFixture[str]) -> None:
    result = train(
        pole(everywhere=False),
        mode="ensemble",
        network=tiny,
        points=9,
        steps=20,
        evaluation_points=11,
        progress=True,
    )
    member = result.members[-1]
    assert (member.status, member.steps, np.isnan(member.loss)) == ("not finite", 0, True)
    result.print()
    out = capsys.readouterr().out
    told = f"rank {sp.size() - 1} of {sp.size()}: the loss is no longer finite; the model in"
    assert out.count(told) == (sp.rank() == 0)
    assert ("the loss is not finite at the initial weights" in out) == (sp.rank() == 0)


@pytest.mark.parametrize("mode", ["data", "ensemble"])
def test_where_no_model_is_left_it_is_an_error_on_all_ranks(mode: str) -> None:
    with pytest.raises(
        TrainingError, match=f"is not finite on .* of {sp.size()}, from the initial"
    ):
        train(pole(everywhere=True), mode=mode, network=tiny, points=9, steps=20, progress=False)


def test_a_loss_far_above_its_best_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    with warned("train: the model: diverged") as told:
        result = train(
            function_approximation(np.sin, domain=Interval(0, 1)),
            network=tiny,
            points=9,
            steps=60,
            log_every=10,
            evaluation_points=11,
            optimizer=Adam(learning_rate=1e11),
            progress=False,
        )
    assert len(told) == (sp.rank() == 0)
    member = result.members[0]
    assert np.isfinite(member.loss) and member.loss > 1e10 * member.best_loss
    assert member.status == "diverged" and not result.sound
    result.print()
    out = capsys.readouterr().out
    assert ("! the model: diverged; the loss ended at" in out) == (sp.rank() == 0)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@several
def test_a_sound_result_has_exit_code_0_and_another_3(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sound = replace(ensemble(), members=ensemble().members[:-MEMBERS])
    assert conclude(sound, tmp_path, program="trial") == 0
    assert "trial:" not in capfd.readouterr().err
    assert conclude(ensemble(), tmp_path, program="trial") == 3
    said = f"trial: not all is well: of the models, {MEMBERS} of {MEMBERS * sp.size()} ended"
    assert (said in capfd.readouterr().err) == (sp.rank() == 0)
