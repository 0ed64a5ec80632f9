"""The estimated errors of the members of a training, where these are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy.typing as npt

from sciml_par._checks import check_flag
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.member import Member
from sciml_par.training.estimate.by_correction import Correction
from sciml_par.training.estimate.estimate import KINDS, estimate_error
from sciml_par.training.loop.course import Course
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.outcome.outcome import Outcome
from sciml_par.training.outcome.together import Ended
from sciml_par.training.preparation.preparation import Preparation

_FEATURES = 300
_SECONDS = 120.0
"""A training that took this long is worth an estimate, which takes 3 to 20 seconds."""


def check_estimate(asked: Any, ready: Preparation, everyone: Communicator) -> None:
    """Check the argument `estimate` of `train`, before any training (local)."""
    check_flag("train", "estimate", asked, or_none=True)
    if asked and ready.group.size < everyone.size:
        raise InputError(
            "train: estimate=True is for members that all ranks train together; give "
            f"mode=Ensemble(members=…, ranks_per_member={everyone.size}), or leave it out."
        )


def wants_estimate(
    asked: bool | None, members: Sequence[Member], ready: Preparation, everyone: Communicator
) -> bool:
    """Return whether errors are to be estimated; the same on every rank (collective)."""
    if asked is not None:
        return asked
    alone = ready.group.size == everyone.size and len(members) == 1
    seconds = members[0].seconds_train + members[0].seconds_compile if alone else 0.0
    return max(everyone.allgather_object(seconds)) >= _SECONDS


def with_estimates(
    members: Sequence[Member],
    ready: Preparation,
    courses: Sequence[Course],
    outcomes: Sequence[Outcome],
    world: World,
    start: Correction | None = None,
    ended: Ended | None = None,
) -> list[Member]:
    """Return the members with the estimated error of each (collective).

    start : the estimate of the error before the initial time.
    ended : returns the signal by which this rank is asked to end, if any.
    """
    setups = [setup for course in courses for setup in course.stack.setups]
    found = {setup.number: (setup, o.kept) for setup, o in zip(setups, outcomes, strict=True)}
    return [
        replace(
            member,
            error=_estimated(
                *found[member.number],
                cast(Prediction, member.on_own_domain),
                ready,
                world,
                start,
                ended,
            ),
        )
        for member in members
    ]


def _estimated(
    setup: MemberSetup,
    kept: npt.NDArray[Any],
    prediction: Prediction,
    ready: Preparation,
    world: World,
    start: Correction | None,
    ended: Ended | None,
) -> ErrorEstimate:
    """Return the estimated error of a member (collective)."""
    how: dict[str, Any] = {"seed": ready.settings.seed, "world": world, "ended": ended}

    def estimate(problem: Problem, **others: Any) -> ErrorEstimate:
        return estimate_error(problem, setup, kept, prediction, **how, **others)

    if start is None and getattr(setup.network.model, "has_random_features", False):
        # It imports TensorFlow, which is not to be there before `init`.
        in_windows: Any = import_module("sciml_par.training.estimate.in_windows")
        correct = partial(in_windows.corrected_in_windows, setup, kept, ready.points)
        corrected: list[Any] = []

        def better() -> Any:
            corrected.append(correct(**how))
            return corrected[0]

        error = estimate(setup.problem, suitable=([KINDS[0]], _FEATURES), better=better)
        # With scaled inputs, the parts are not those of the domain.
        scaled = not corrected or setup.problem.input_scaling
        return error if scaled else cast(ErrorEstimate, corrected[0].with_windows(error))
    if start is None:
        return estimate(setup.problem)
    problem = setup.problem.starting_from(start.in_time)
    error = estimate(problem, suitable=start.suitable)
    # What suits one slab of time suits the next one in most cases.
    return error if world.communicator.broadcast_object(error.known) else estimate(problem)
