"""Something done between chunks of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sciml_par.training.run.meeting import Meeting

NO_LIMIT = 2**31 - 1
"""Of a chunk's steps."""


class Watcher:
    """Something done between chunks; this one does nothing."""

    def longest_chunk(self, step: int) -> int:
        """Return how many steps the next chunk may have at most, after `step` steps of a course.

        The same on all ranks of a group.
        """
        return NO_LIMIT

    def stop(self) -> str | None:
        """Return why all ranks must stop, or None; one rank's answer is enough."""
        return None

    def met(self, meeting: Meeting) -> str | None:
        """Take note of a meeting (collective); return what to report at the next one, or None."""
        return None
