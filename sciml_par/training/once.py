"""One training of networks on a problem by all ranks, or by groups of them; see `train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sciml_par._checks import check_flag
from sciml_par.errors import TrainingError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World, current_world
from sciml_par.results.result import Result
from sciml_par.training.arguments.arguments import Arguments, texts_of
from sciml_par.training.arguments.ensemble import DATA, ENSEMBLE
from sciml_par.training.checkpoints.checkpoint import Checkpoint, compare_checkpoints
from sciml_par.training.checkpoints.resume import begin_from, points_before
from sciml_par.training.growth import GrowthWatcher, check_grow
from sciml_par.training.outcome.collect import collect
from sciml_par.training.outcome.found import members_found
from sciml_par.training.outcome.outcome import outcomes_of
from sciml_par.training.preparation.consistency import common_domain
from sciml_par.training.preparation.preparation import Preparation, prepare
from sciml_par.training.run.callbacks import CallbackWatcher, as_callbacks
from sciml_par.training.run.holdout import HoldoutWatcher
from sciml_par.training.run.meeting import Meeting, failure_text
from sciml_par.training.run.progress import ProgressWatcher, Reporter, TimeWatcher
from sciml_par.training.run.run import run
from sciml_par.training.run.signals import SignalWatcher, signals_caught
from sciml_par.training.run.watcher import Watcher
from sciml_par.training.solving.of_trained import wants_estimate, with_estimates
from sciml_par.training.solving.scale_of_features import with_scale
from sciml_par.training.uncertainty.of_members import with_uncertainties
from sciml_par.training.uncertainty.resampling import resampled
from sciml_par.training.uncertainty.retraining import Retraining
from sciml_par.training.windows.points import with_points_of_windows
from sciml_par.training.windows.solved import solved_in_windows


def train_once(
    arguments: Arguments,
    world: World,
    *,
    callbacks: Any = (),
    checkpoint: Checkpoint | None = None,
    resume: bool | str = False,
    progress: bool = True,
    estimate: bool | None = None,
    uncertainty: bool | None = None,
) -> Result:
    """Train, and return the result (collective); arguments as of `train`."""
    everyone = world.communicator
    arguments = everyone.attempt(lambda: with_points_of_windows(arguments))
    called = everyone.attempt(lambda: as_callbacks(callbacks))
    with signals_caught(world) as signals:
        compare_checkpoints(checkpoint, resume, everyone)
        scattered, growths = points_before(checkpoint, resume, everyone)
        again = partial(prepare, world=world, scattered=scattered, growths=growths)
        ready = again(arguments)
        if ready.settings.mode == DATA:  # else every rank may have another problem
            arguments, chosen = with_scale(arguments, world)
            if chosen:
                ready = again(arguments)
                ready = replace(ready, notes=(*chosen, *ready.notes))
        everyone.attempt(lambda: check_flag("train", "estimate", estimate, or_none=True))
        everyone.attempt(lambda: check_grow(arguments, ready))
        everyone.attempt(lambda: check_flag("train", "uncertainty", uncertainty, or_none=True))
        ready = solved_in_windows(ready, everyone)
        meeting = _meeting(ready, everyone)
        saver = begin_from(checkpoint, resume, meeting, ready, everyone)
        growing = GrowthWatcher(ready, arguments, world, saver)
        # Before callbacks and checkpoints, which see what the training continues with.
        judging = [HoldoutWatcher(ready.stops.progress, ready.group)]
        if not any(stack.problem.holds_out for stack in ready.stacks):
            judging = []
        watchers = [growing, *judging, CallbackWatcher(called, everyone), *saver]
        _run(ready, meeting, signals, watchers, everyone, progress=progress)
        for each in saver:
            each.report(everyone)
        return _result(growing.ready, meeting, arguments, world, estimate, uncertainty, signals)


def _meeting(ready: Preparation, everyone: Communicator) -> Meeting:
    """Return the meetings of the ranks between the chunks of steps."""
    return Meeting(
        ready.courses(),
        rank=everyone.rank,
        speaks=ready.group.rank == 0,
        ensemble=ready.settings.mode == ENSEMBLE,
    )


def _run(
    ready: Preparation,
    meeting: Meeting,
    signals: Watcher,
    watchers: Sequence[Watcher],
    everyone: Communicator,
    *,
    progress: bool,
) -> None:
    """Make the steps, and show the progress on rank 0 (collective)."""
    shown = progress and everyone.rank == 0
    with Reporter(meeting.steps_asked, shown=shown) as reporter:
        told = current_world().kept.setdefault("notes of trainings", set())
        for note in ready.notes if shown else ():
            if note not in told:  # once a process, not in each training of a loop
                reporter.note(note)
                told.add(note)
        reporter.begin(meeting.done)
        all_records = ready.settings.log_every is not None
        first = [
            signals,
            TimeWatcher(ready.stops.seconds, rank=everyone.rank),
            ProgressWatcher(reporter, all_records=all_records),
        ]
        run(
            meeting,
            take_apart=ready.take_apart,
            group=ready.group,
            world=everyone,
            watchers=[*first, *watchers],
        )


def _result(
    ready: Preparation,
    meeting: Meeting,
    arguments: Arguments,
    world: World,
    estimate: bool | None,
    uncertainty: bool | None,
    signals: SignalWatcher,
) -> Result:
    """Collect what the ranks have found, and estimate its error if asked for (collective)."""
    everyone = world.communicator
    of_courses = (outcomes_of(course, ready.settings) for course in meeting.courses)
    outcomes = [outcome for found in of_courses for outcome in found]
    if not any(everyone.allgather_object(any(outcome.sound for outcome in outcomes))):
        raise TrainingError(failure_text(meeting.everyone))
    whole = arguments.evaluation_domain or common_domain(arguments.problem, everyone)
    found = members_found(ready, meeting.courses, outcomes, whole, everyone)
    if wants_estimate(estimate, found, ready, everyone):
        of = ready, meeting.courses, outcomes, world, signals
        found = with_estimates(found, *of, asked=bool(estimate))
    samples = getattr(arguments.mode, "bootstrap", False)
    found = with_uncertainties(
        found, ready, meeting.courses, outcomes, uncertainty, samples=samples
    )
    resample = None
    if ready.settings.mode == DATA:
        resample = partial(resampled, Retraining(arguments, ready, outcomes[0].kept, world))
    return Result(
        ready.settings.mode,
        collect(found, everyone, ready.problem_of),
        ready.networks,
        everyone,
        arguments=texts_of(arguments),
        resample=resample,
    )
