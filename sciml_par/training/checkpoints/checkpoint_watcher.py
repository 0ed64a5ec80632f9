"""Write checkpoints between chunks of steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sciml_par._stderr import write_error
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.checkpoints import checkpoint_file
from sciml_par.training.checkpoints.checkpoint_content import FloatArray, content_of, terms_of_now
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.loop import NOT_FINITE
from sciml_par.training.preparation.description import Identity
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.watcher import NO_LIMIT, Watcher


class CheckpointWatcher(Watcher):
    """Write a group's file at multiples of some steps, when all stop, and at the end.

    A file that cannot be written does not end the training: a line reports it, and it is tried
    again at the next multiple.
    """

    def __init__(
        self,
        path: Path,
        every: int | None,
        identity: Identity,
        *,
        take_apart: Callable[[Course], None],
        writes: bool,
        resumed: tuple[int, ...] | None,
    ) -> None:
        self._path, self._every, self._identity = path, every, identity
        self._writes, self._take_apart = writes, take_apart
        self._written: tuple[int, ...] | None = None
        self._seen: tuple[int, ...] | None = None
        self._resumed = resumed
        self._terms: dict[int, tuple[int, FloatArray]] = {}
        self._problem: str | None = None

    def longest_chunk(self, step: int) -> int:
        return NO_LIMIT if self._every is None else self._every - step % self._every

    def met(self, meeting: Meeting) -> str | None:
        now = tuple(course.step for course in meeting.courses)
        moved, self._seen = now != self._seen, now
        course = meeting.course
        multiple = self._every is not None and course.step % self._every == 0 and course.step > 0
        due = meeting.over or (moved and (multiple or course.finished))
        if not due or now == self._resumed or _lost(meeting):
            return None
        for i, each in enumerate(meeting.courses):
            known = i in self._terms and self._terms[i][0] == each.step
            if each.step > 0 and not known:  # collective
                self._terms[i] = each.step, terms_of_now(each, self._take_apart)
        terms = {i: of_course for i, (_, of_course) in self._terms.items()}
        if not self._writes or now == self._written:
            return None
        return self._write(meeting, now, terms)

    def go_on_with(self, ready: Preparation) -> None:
        """Write checkpoints of a training that continues with other points."""
        self._identity, self._take_apart = ready.identity, ready.take_apart
        self._terms.clear()

    def report(self, world: Communicator) -> None:
        """Say on rank 0 which files could not be written at last, if any (collective)."""
        problems = [problem for problem in world.allgather_object(self._problem) if problem]
        if problems and world.rank == 0:
            more = f" (and {len(problems) - 1} others)" if len(problems) > 1 else ""
            write_error(f"warning: {problems[0]}{more}.")

    def _write(
        self, meeting: Meeting, now: tuple[int, ...], terms: dict[int, FloatArray]
    ) -> str | None:
        before, self._problem = self._problem, None
        try:
            checkpoint_file.write(content_of(meeting, self._identity, terms), self._path)
        except OSError as error:
            reason = error.strerror or str(error)
            self._problem = f"the checkpoint {self._path} cannot be written ({reason})"
        else:
            self._written = now
        if self._problem is None or before is not None:
            return None  # it has been reported
        again = "" if self._every is None else f"; it is tried again every {self._every:,} steps"
        return f"{self._problem}. Training continues{again}"


def _lost(meeting: Meeting) -> bool:
    """Return whether no member has ever had a finite loss, so that nothing can be resumed."""
    return not any(
        np.any((course.ended != NOT_FINITE) | np.isfinite(course.state.best_loss.numpy()))
        for course in meeting.courses
    )
