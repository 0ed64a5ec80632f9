"""What ranks tell each other between chunks of steps, and who looks on there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._text import rank_list
from sciml_par.problems.unknowns.unknowns import Unknowns, names_of_numbers, numbers_of
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.loop import NOT_FINITE, RUNNING

FloatArray = npt.NDArray[np.float64]

NO_LIMIT = 2**31 - 1
"""Of a chunk's steps."""


@dataclass(frozen=True)
class Status:
    """What a rank tells the others between chunks.

    Attributes
    ----------
    course : the number of the course that it is on, among its own; their number when all are done.
    courses : how many it has.
    done : steps that it has made on all its courses.
    phase : the number of the phase.
    numbers, losses : of the members in training.
    unknowns : of their problems, by name, the values of each.
    terms : of the loss of the first of these.
    measures : what the optimizer tells of its last step for that one, by name.
    not_finite : numbers of the members that have ended because their loss was not finite.
    seconds : that its last chunk took.
    digest : of the weights in the course that it has worked on.
    stop : why it asks all to stop, or None.
    notes : what is to be told at once.
    """

    course: int
    courses: int
    done: int
    phase: int
    numbers: tuple[int, ...]
    losses: tuple[float, ...]
    unknowns: dict[str, list[float]]
    terms: tuple[float, ...]
    measures: dict[str, float]
    not_finite: tuple[int, ...]
    seconds: float
    digest: bytes
    stop: str | None
    notes: tuple[str, ...]


@dataclass
class Meeting:
    """What every rank knows after it has met the others.

    Attributes
    ----------
    courses : this rank's.
    rank : this one.
    speaks : whether it is the first of those that train its courses.
    ensemble : whether there may be other courses on other ranks.
    worked : the number of the course that it has worked on since the last meeting.
    everyone : the statuses of all ranks.
    stop : why all stop, or None.
    """

    courses: list[Course]
    rank: int = 0
    speaks: bool = True
    ensemble: bool = False
    worked: int = 0
    everyone: Sequence[Status] = ()
    stop: str | None = None

    def stop_all(self, reason: str) -> None:
        """Let no course make more steps; all ranks say the same."""
        self.stop = reason
        for course in self.courses:
            course.stop(reason)

    @property
    def done(self) -> int:
        """Steps that this rank's courses have made."""
        return sum(course.step for course in self.courses)

    @property
    def steps_asked(self) -> int:
        """Steps that they are to make."""
        return sum(course.steps_asked for course in self.courses)

    @property
    def course(self) -> Course:
        """The one that this rank has worked on since the last meeting."""
        return self.courses[self.worked]

    @property
    def losses(self) -> list[float]:
        """Of all members in training."""
        return [loss for status in self.everyone for loss in status.losses]

    @property
    def unknowns(self) -> dict[str, list[float]]:
        """The values of unknowns by name, of all members in training that have them."""
        found: dict[str, list[float]] = {}
        for status in self.everyone:
            for name, values in status.unknowns.items():
                found.setdefault(name, []).extend(values)
        return found

    @property
    def over(self) -> bool:
        """Whether no rank has anything left to do."""
        done = all(status.course >= status.courses for status in self.everyone)
        return self.stop is not None or done


class Watcher:
    """What is done between chunks, beside training. This one does nothing."""

    def longest_chunk(self, step: int) -> int:
        """Return how many steps the next chunk may have at most, after `step` steps of a course.

        The same on all ranks of a group.
        """
        return NO_LIMIT

    def stop(self) -> str | None:
        """Why all are to stop, or None; one rank's word is enough."""
        return None

    def met(self, meeting: Meeting) -> str | None:
        """All ranks have met; what is to be told them at the next meeting, if anything."""
        return None


def status_of(
    courses: Sequence[Course],
    worked: int,
    *,
    seconds: float,
    digest: bytes,
    stop: str | None,
    notes: Sequence[str],
) -> Status:
    """What this rank has to tell."""
    shown = courses[worked]
    running = np.flatnonzero(shown.ended == RUNNING)
    bad = [
        number
        for course in courses
        for number, why in zip(course.stack.numbers, course.ended, strict=True)
        if why == NOT_FINITE
    ]
    return Status(
        course=current(courses),
        courses=len(courses),
        done=sum(course.step for course in courses),
        phase=shown.position.phase,
        numbers=tuple(shown.stack.numbers[j] for j in running),
        losses=tuple(float(shown.terms[j].sum()) for j in running),
        unknowns=_unknowns(shown, running),
        terms=tuple(map(float, shown.terms[running[0] if len(running) else 0])),
        measures={
            name: float(values[running[0] if len(running) else 0])
            for name, values in shown.measures.items()
        },
        not_finite=tuple(bad),
        seconds=seconds,
        digest=digest,
        stop=stop,
        notes=tuple(notes),
    )


def _unknowns(course: Course, running: npt.NDArray[Any]) -> dict[str, list[float]]:
    unknowns = course.stack.problem.unknowns
    if not unknowns or len(running) == 0:
        return {}
    return named_values(unknowns, numbers_of(unknowns, course.unknowns[running]))


def named_values(unknowns: Unknowns, values: FloatArray) -> dict[str, list[float]]:
    """Of the values [M, q] of M members, by the names of the q numbers."""
    return dict(zip(names_of_numbers(unknowns), values.T.tolist(), strict=True))


def current(courses: Sequence[Course]) -> int:
    """Return the number of the first course that is not done, or how many there are."""
    return next((i for i, course in enumerate(courses) if not course.finished), len(courses))


def failure_text(everyone: Sequence[Status]) -> str:
    """What to say where no member has ever had a finite loss."""
    bad = [rank for rank, status in enumerate(everyone) if status.not_finite]
    return (
        f"the loss or its gradient is not finite on {rank_list(bad)} of {len(everyone)}, from the "
        f"initial weights on. Usual causes: a residual that divides by zero or takes a root or "
        f"logarithm of what is negative, or data that are not finite."
    )
