"""Writes checkpoints between chunks of steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sciml_par._stderr import write_error
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training import checkpoint_file
from sciml_par.training.checkpoint_content import Identity, content_of
from sciml_par.training.loop import NOT_FINITE
from sciml_par.training.meeting import NO_LIMIT, Meeting, Watcher


class CheckpointWatcher(Watcher):
    """Writes a group's file at multiples of some steps, when all stop, and at the end.

    A file that cannot be written does not end the training: it is told, and tried again at the
    next multiple.

    Parameters
    ----------
    path : the file.
    every : steps between files, or None.
    identity : of the training.
    writes : whether this rank writes; one of each group does.
    resumed : whether the file holds the state of now.
    """

    def __init__(
        self,
        path: Path,
        every: int | None,
        identity: Identity,
        *,
        writes: bool,
        resumed: bool,
    ) -> None:
        self._path, self._every, self._identity = path, every, identity
        self._writes = writes
        self._written: tuple[int, ...] | None = None
        self._seen: tuple[int, ...] | None = None
        self._resumed = resumed
        self._problem: str | None = None

    def longest_chunk(self, step: int) -> int:
        """See `Watcher`: up to the next multiple."""
        return NO_LIMIT if self._every is None else self._every - step % self._every

    def met(self, meeting: Meeting) -> str | None:
        """See `Watcher` (local)."""
        now = tuple(course.step for course in meeting.courses)
        if self._resumed and self._seen is None:
            self._written = now
        moved, self._seen = now != self._seen, now
        course = meeting.course
        multiple = self._every is not None and course.step % self._every == 0 and course.step > 0
        due = meeting.over or (moved and (multiple or course.finished))
        if not due or not self._writes or now == self._written or _lost(meeting):
            return None
        return self._write(meeting, now)

    def report(self, world: Communicator) -> None:
        """Say on rank 0 which files could not be written at last, if any (collective)."""
        problems = [problem for problem in world.allgather_object(self._problem) if problem]
        if problems and world.rank == 0:
            more = f" (and {len(problems) - 1} others)" if len(problems) > 1 else ""
            write_error(f"warning: {problems[0]}{more}.")

    def _write(self, meeting: Meeting, now: tuple[int, ...]) -> str | None:
        before, self._problem = self._problem, None
        try:
            checkpoint_file.write(content_of(meeting, self._identity), self._path)
        except OSError as error:
            reason = error.strerror or str(error)
            self._problem = f"the checkpoint {self._path} cannot be written ({reason})"
        else:
            self._written = now
        if self._problem is None or before is not None:
            return None  # it has been told already
        again = "" if self._every is None else f"; it is tried again every {self._every:,} steps"
        return f"{self._problem}. Training goes on{again}"


def _lost(meeting: Meeting) -> bool:
    """Whether no member has ever had a finite loss, so that there is nothing to go on from."""
    return not any(
        np.any((course.ended != NOT_FINITE) | np.isfinite(course.state.best_loss.numpy()))
        for course in meeting.courses
    )
