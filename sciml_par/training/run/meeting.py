"""What ranks report to each other between chunks of steps, and what watches there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sciml_par._text import rank_list
from sciml_par.problems.unknowns.unknowns import Unknowns, names_of_numbers, numbers_of
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.loop import NOT_FINITE, RUNNING, State

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Status:
    """What a rank reports to the others between chunks."""

    course: int  # the number of its present course; `courses` after the last
    courses: int
    done: int
    phase: int
    numbers: tuple[int, ...]  # of the members in training, as their losses and unknowns
    losses: tuple[float, ...]
    unknowns: dict[str, list[float]]
    terms: tuple[float, ...]  # of the first of these members, as the measures
    measures: dict[str, float]
    not_finite: tuple[int, ...]  # the members that have ended because their loss was not finite
    seconds: float  # that its last chunk took
    digest: bytes  # of the weights in the course that it has worked on
    stop: str | None  # why it asks all to stop
    notes: tuple[str, ...]  # to be shown


@dataclass
class Meeting:
    """What every rank knows after a meeting."""

    courses: list[Course]  # of this rank
    rank: int = 0
    speaks: bool = True  # whether this is the first of the ranks that train its courses
    ensemble: bool = False  # whether other ranks may have other courses
    worked: int = 0  # the number of the course that this rank has worked on
    everyone: Sequence[Status] = ()
    stop: str | None = None  # why all stop

    def stop_all(self, reason: str) -> None:
        """Let no course make more steps (on all ranks)."""
        self.stop = reason
        for course in self.courses:
            course.stop(reason)

    def reopen(self) -> None:
        """Let the courses that all ranks share go on, which had ended."""
        self.everyone = [replace(each, course=current(self.courses)) for each in self.everyone]

    @property
    def done(self) -> int:
        """The number of steps that this rank's courses have made."""
        return sum(course.step for course in self.courses)

    @property
    def steps_asked(self) -> int:
        """The number of steps of all phases of these."""
        return sum(course.steps_asked for course in self.courses)

    @property
    def course(self) -> Course:
        """The course that this rank has worked on since the last meeting."""
        return self.courses[self.worked]

    @property
    def losses(self) -> list[float]:
        """The losses of all members in training."""
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
        """Whether no rank makes more steps."""
        done = all(status.course >= status.courses for status in self.everyone)
        return self.stop is not None or done


def status_of(
    meeting: Meeting, *, seconds: float, stop: str | None, notes: Sequence[str]
) -> Status:
    """Return the status of this rank."""
    courses, shown = meeting.courses, meeting.course
    running = np.flatnonzero(shown.ended == RUNNING)
    first = running[0] if len(running) else 0
    unknowns = shown.stack.problem.unknowns if len(running) else {}
    bad = [
        number
        for course in courses
        for number, why in zip(course.stack.numbers, course.ended, strict=True)
        if why == NOT_FINITE
    ]
    return Status(
        course=current(courses),
        courses=len(courses),
        done=meeting.done,
        phase=shown.position.phase,
        numbers=tuple(shown.stack.numbers[j] for j in running),
        losses=tuple(float(shown.terms[j].sum()) for j in running),
        unknowns=named_values(unknowns, numbers_of(unknowns, shown.unknowns[running])),
        terms=tuple(map(float, shown.terms[first])),
        measures={name: float(values[first]) for name, values in shown.measures.items()},
        not_finite=tuple(bad),
        seconds=seconds,
        digest=digest_of(shown.state),
        stop=stop,
        notes=tuple(notes),
    )


def digest_of(state: State) -> bytes:
    """Return sixteen bytes that differ if the weights differ in any bit."""
    return hashlib.blake2b(state.parameters.numpy().tobytes(), digest_size=16).digest()


def named_values(unknowns: Unknowns, values: FloatArray) -> dict[str, list[float]]:
    """Return values [M, q] of M members by the names of the q numbers."""
    return dict(zip(names_of_numbers(unknowns), values.T.tolist(), strict=True))


def current(courses: Sequence[Course]) -> int:
    """Return the number of the first course that is not done, or how many there are."""
    return next((i for i, course in enumerate(courses) if not course.finished), len(courses))


def failure_text(everyone: Sequence[Status]) -> str:
    """Return a sentence for a training without any finite loss."""
    bad = [rank for rank, status in enumerate(everyone) if status.not_finite]
    return (
        f"the loss or its gradient is not finite on {rank_list(bad)} of {len(everyone)}, from the "
        f"initial weights on. Check the residuals for divisions by zero, roots and logarithms of "
        f"negative numbers, and points where a GriddedFunction is outside of its grid; and check "
        f"the data for values that are not finite."
    )
