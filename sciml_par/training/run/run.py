"""Drive the compiled loops of all ranks from the first step to the last, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import rank_list
from sciml_par.errors import TrainingError
from sciml_par.parallel.collectives.fused import fused_broadcast
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.loop.course import Course, NotStackableError
from sciml_par.training.loop.loop import State
from sciml_par.training.run.meeting import Meeting, current, status_of
from sciml_par.training.run.watcher import Watcher

_SECONDS_PER_CHUNK = 0.5
_FIRST_CHUNK = 1  # a step may take a second


def run(
    meeting: Meeting,
    *,
    take_apart: Callable[[Course], None],
    group: Communicator,
    world: Communicator,
    watchers: Sequence[Watcher],
) -> None:
    """Train this rank's courses one after the other, as the other ranks do theirs (collective).

    `take_apart` makes separate computations of the members of a course that cannot be one.
    """
    courses = meeting.courses
    notes: list[str] = []
    count, index, seconds, made = _FIRST_CHUNK, current(courses), 0.0, 0
    while True:
        meeting.worked = min(index, len(courses) - 1)
        try:
            if index < len(courses):
                seconds, made = _work(courses[index], count, watchers)
        except NotStackableError:
            take_apart(courses[index])
            seconds, made = 0.0, 0
        _meet(meeting, group, world, watchers, seconds=seconds, notes=notes)
        notes = [note for watcher in watchers if (note := watcher.met(meeting))]
        if meeting.over:
            return
        # All ranks know all durations, so those of a group agree on the next count.
        slowest = max(meeting.everyone[rank].seconds for rank in group.world_ranks)
        fitting = max(1, int(made * _SECONDS_PER_CHUNK / max(slowest, 1e-6)))
        # A chunk that had to be shorter tells only that so many steps fit at least.
        count = fitting if made >= count else max(count, fitting)
        before, index = index, current(courses)
        if index != before or (index < len(courses) and courses[index].needs_preparation):
            count = _FIRST_CHUNK


def _work(course: Course, count: int, watchers: Sequence[Watcher]) -> tuple[float, int]:
    """Return the seconds and steps of a chunk; of compilation, as if all its steps were made."""
    if course.needs_preparation:
        return course.prepare(), count
    before = course.step
    most = min([count, *(watcher.longest_chunk(course.step) for watcher in watchers)])
    seconds = course.advance(min(most, course.longest_chunk()))
    return seconds, course.step - before


def _meet(
    meeting: Meeting,
    group: Communicator,
    world: Communicator,
    watchers: Sequence[Watcher],
    *,
    seconds: float,
    notes: Sequence[str],
) -> None:
    asked = [reason for watcher in watchers if (reason := watcher.stop()) is not None]
    mine = status_of(meeting, seconds=seconds, stop=asked[0] if asked else None, notes=notes)
    meeting.everyone = world.allgather_object(mine)
    stop = next((s.stop for s in meeting.everyone if s.stop is not None), None)
    if stop is not None:
        meeting.stop_all(stop)
    if len({meeting.everyone[rank].digest for rank in group.world_ranks}) > 1:
        course = meeting.course
        course.state, drift = bring_together(course.state, course.step, group)
        course.times_brought_together += 1
        course.largest_drift = max(course.largest_drift, drift)


def bring_together(state: State, step: int, group: Communicator) -> tuple[State, float]:
    """Return rank 0's state in place of those that rounding has driven apart (collective).

    All ranks compute the same updates from the same gradients. Processors of two kinds may round
    them differently, and a difference in the last digit grows with the steps.
    """
    leaves = fused_broadcast(tf.nest.flatten(state), 0, communicator=group)
    together = tf.nest.pack_sequence_as(state, leaves)
    exact = together.parameters.numpy().astype(np.float64)
    apart = float(np.linalg.norm(state.parameters.numpy() - exact))
    distances = group.allgather_object(apart / max(float(np.linalg.norm(exact)), 1e-300))
    worst = float(np.max(distances))  # which a NaN passes through
    limit = float(np.sqrt(np.finfo(together.parameters.numpy().dtype).eps))
    if not worst <= limit:
        far = [rank for rank, distance in enumerate(distances) if not distance <= limit]
        raise TrainingError(
            f"the replicas of the model have parted: after step {step:,} the weights of "
            f"{rank_list(far)} of {len(distances)} differ from those of rank 0 by {worst:.1e} of "
            f"their size, and rounding explains {limit:.1e} at most. Use an optimizer that does "
            f"not depend on the rank, and the same software on all ranks."
        )
    return together, worst
