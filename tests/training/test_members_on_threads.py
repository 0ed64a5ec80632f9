"""Members that a rank divides over its threads are what they are in one computation."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Chunk, Loop
from trainings import bits, branching_problem, stop_at, tiny

import sciml_par.parallel as sp
from sciml_par.problems import Interval, Problem, poisson
from sciml_par.results import Result
from sciml_par.training import (
    SGD,
    Adam,
    Checkpoint,
    Ensemble,
    NoProgress,
    Points,
    Progress,
    TargetLoss,
    train,
)

pytestmark = pytest.mark.beside
MEMBERS = 5
RATES = (1e-3, 2e-3, 3e-3, 4e-3, 5e-3)
local = pytest.mark.ranks(most=1, reason="each rank has its own threads")


def wave(number: int) -> Problem:
    return poisson(k=1 + number % 2, domain=Interval(0, 1))


BRANCHING = branching_problem(Interval(0, 1))
MODE = Ensemble(members_per_rank=MEMBERS, problems=wave)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that trains with so many threads."""

    def small(threads: int, problem: Problem | None = None, **options: Any) -> Result:
        monkeypatch.setattr(sp.current_world(), "threads", threads)
        settings: dict[str, Any] = {
            "mode": MODE,
            "network": tiny,
            "points": 11,
            "steps": 60,
            "log_every": 7,
            "evaluation_points": 11,
            "precision": "float64",
            "progress": False,
        }
        return train(problem or wave(0), **settings | options)

    return small


def check_equal(result: Result, reference: Result) -> None:
    assert len(result.members) == len(reference.members)
    for mine, other in zip(result.members, reference.members, strict=True):
        for name in ("number", "steps", "ended", "status", "stacked_with", "seed", "best_step"):
            assert getattr(mine, name) == getattr(other, name), name
        np.testing.assert_array_equal(mine.loss_steps, other.loss_steps)
        np.testing.assert_allclose(mine.term_losses, other.term_losses, rtol=1e-9, atol=1e-14)
        if other.weights is not None and mine.weights is not None:
            np.testing.assert_allclose(mine.weights.best, other.weights.best, rtol=1e-9)
            np.testing.assert_allclose(mine.weights.last, other.weights.last, rtol=1e-9)


TWO_PHASES: list[tuple[Any, int]] = [(Adam(1e-2), 30), (Adam(1e-3), 30)]


@dataclass(frozen=True)
class Coupled(SGD):
    """Its state cannot be divided among members."""

    def start(self, layout: Any, parameters: Any) -> Any:
        members = parameters.shape[0]
        return (*super().start(layout, parameters), tf.zeros([members, members], parameters.dtype))

    def update(self, layout: Any, parameters: Any, gradient: Any, state: Any, *at: Any) -> Any:
        parameters, new = super().update(layout, parameters, gradient, state[:-1], *at)
        return parameters, (*new, state[-1])


def fails_for_large_rates(u: Any, x: Any) -> Any:
    return u(x) - 1.0 + 1e-3 * tf.sqrt(40.0 - u(x) ** 2)


CASES: dict[str, dict[str, Any]] = {
    "rates, minibatches, phases": {
        "mode": Ensemble(members=MEMBERS, problems=wave, learning_rates=RATES),
        "points": Points(12, batch_size=4, resample_every=20, method="uniform"),
        "steps": None,
        "phases": TWO_PHASES,
    },
    "one set of points for all, norms": {
        "mode": Ensemble(members=MEMBERS),
        "optimizer": keras.optimizers.AdamW(1e-2, clipnorm=1.0),
    },
    "more threads than members": {"threads": 3, "mode": Ensemble(members=2, problems=wave)},
    "a loss that is not finite": {
        "problem": Problem(Interval(0, 1), fails_for_large_rates, name="one"),
        "mode": Ensemble(members=4, learning_rates=(1e-3, 2e-3, 1e3, 1e3)),
        "log_every": 1,
    },
    "an optimizer that couples members": {"optimizer": Coupled(1e-3)},
}
ENDED = {"a loss that is not finite": ["all steps"] * 2 + ["not finite"] * 2}


NORMS = "one set of points for all, norms"


@local
@pytest.mark.parametrize(
    "case",
    [
        "rates, minibatches, phases",
        pytest.param("an optimizer that couples members", marks=pytest.mark.long),
        pytest.param("a loss that is not finite", marks=pytest.mark.long),
        pytest.param(NORMS, marks=pytest.mark.all),
        pytest.param("more threads than members", marks=pytest.mark.all),
    ],
)
def test_members_on_two_threads_equal_those_on_one(case: str, on: Any) -> None:
    """Five members are two and three."""
    options = {**CASES[case]}
    threads, whole = options.pop("threads", 2), on(1, **options)
    divided = on(threads, **options)
    check_equal(divided, whole)
    assert ENDED.get(case, ["all steps"] * len(whole.members)) == [m.ended for m in whole.members]
    if case in (NORMS, "rates, minibatches, phases"):
        assert bits(on(threads, **options)) == bits(divided)


@local
def test_parts_run_at_the_same_time(on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits in the middle of training for the other, which would end in an error if alone."""
    both, advance, met = threading.Barrier(2), Loop.advance, []

    def meet(loop: Loop, *arguments: Any) -> Chunk:
        if arguments[-1].steps > 1:  # neither to compile nor for the loss at the end
            met.append(both.wait(timeout=60.0))
        return advance(loop, *arguments)

    monkeypatch.setattr(Loop, "advance", meet)
    on(2)
    assert met.count(0) == met.count(1) > 0


@local
def test_members_that_cannot_be_stacked_are_parts_of_their_own(on: Any) -> None:
    """They are the same programs on one thread as on two."""
    mode = Ensemble(members=3)
    one, two = on(1, BRANCHING, mode=mode), on(2, BRANCHING, mode=mode)
    for result in (one, two):
        assert [member.stacked_with for member in result.members] == [(0,), (1,), (2,)]
    assert bits(one) == bits(two)
    assert len({member.loss for member in two.members}) == 3
    assert all(member.steps == 60 for member in two.members)


@local
@pytest.mark.parametrize(
    ("problem", "before", "after"),
    [(wave(0), 2, 1), pytest.param(BRANCHING, 1, 2, marks=pytest.mark.all)],
)
def test_resumes_on_as_many_threads_and_on_others(
    problem: Problem, before: int, after: int, on: Any, tmp_path: Path
) -> None:
    # Two members that cannot be stacked are so on one thread only: on two nobody has to know.
    members = 2 if problem is BRANCHING else MEMBERS
    mode = Ensemble(members=members, problems=lambda number: problem)
    checkpoint = Checkpoint(tmp_path, every=5)
    first = on(before, problem, mode=mode, checkpoint=checkpoint, callbacks=stop_at(25))
    assert {(m.ended, m.steps) for m in first.members} == {("the test", 25)}
    resumed = on(after, problem, mode=mode, checkpoint=checkpoint, resume=True)
    whole = on(after, problem, mode=mode)
    if before == after or problem is BRANCHING:
        assert bits(resumed) == bits(whole)
    check_equal(resumed, whole)


@local
def test_a_part_whose_members_have_all_ended_leaves_the_others_alone(on: Any) -> None:
    """The fast ones reach the target at different steps; the others are far from it at the end."""
    rates = (3e-2, 2e-2, 1e-4, 1e-4)
    mode = Ensemble(members=4, problems=[poisson(k=1)] * 4, learning_rates=rates, seeds=[5] * 4)
    options: dict[str, Any] = {"mode": mode, "steps": 300, "log_every": 1}
    losses = [member.losses for member in on(1, poisson(k=1), **options).members]
    target = max(float(np.min(each)) for each in losses[:2])
    target += 0.3 * (float(losses[0][0]) - target)
    one = on(1, poisson(k=1), stop=TargetLoss(target), **options)
    check_equal(on(2, poisson(k=1), stop=TargetLoss(target), **options), one)
    ended = [member.ended for member in one.members]
    assert ended == ["target loss", "target loss", "all steps", "all steps"]
    steps = {member.steps for member in one.members}
    assert len(steps) == 3, "they end at different steps"


@local
def test_a_phase_that_ends_early_on_one_thread_is_followed_by_the_next(on: Any) -> None:
    options: dict[str, Any] = {
        "mode": Ensemble(members=4, learning_rates=(1e-9, 1e-9, 1e-2, 1e-2)),
        "steps": None,
        "phases": [(Adam(1e-2), 60), (Adam(1e-3), 20)],
        "stop": NoProgress(20, least_progress=0.01),
    }
    one = on(1, **options)
    check_equal(on(2, **options), one)
    assert one.members[0].steps < 80 and one.members[3].steps == 80


@local
def test_an_error_on_one_thread_is_raised_when_the_others_are_done(
    on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, made = Loop.advance, []

    def fail(loop: Loop, state: Any, *arguments: Any) -> Chunk:
        if arguments[-1].steps > 1 and len(state.steps) == 2:
            raise RuntimeError("the part of two members")
        chunk = advance(loop, state, *arguments)
        made.append(chunk.done)
        return chunk

    monkeypatch.setattr(Loop, "advance", fail)
    with pytest.raises(RuntimeError, match="the part of two members"):
        on(2)
    # How many steps both parts take singly before a chunk of several depends on their speed.
    *single, last = made
    assert set(single) == {1} and len(single) % 2 == 0 and last > 1
    assert not [t for t in threading.enumerate() if t.name.startswith("part of a loop")]


@local
def test_callbacks_see_all_members(on: Any) -> None:
    seen = []

    def look(progress: Progress) -> None:
        weights = [network.weights[0].numpy().tobytes() for network in progress.networks()]
        seen.append((progress.step, progress.steps, len(set(weights)), tuple(progress.losses)))

    on(2, callbacks=look)
    assert seen[-1] == (60, 60, MEMBERS, (0, 1, 2, 3, 4))
    assert {each[1:] for each in seen} == {seen[-1][1:]}


@pytest.mark.ranks(least=2, most=2, reason="needs ranks that share members")
def test_ranks_that_share_members_communicate_in_one_thread(on: Any) -> None:
    mode = Ensemble(members=2, ranks_per_member=sp.size(), problems=wave)
    check_equal(on(2, mode=mode), on(1, mode=mode))
