"""The points of stacked members that are divided into several computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par.training.points.feed import Feed


class DividedFeed:
    """What `DividedLoop` is given: the points of each of its parts.

    Attributes
    ----------
    steps_per_epoch : as of a `Feed`.
    adaptive : None; points that follow the residual are of one computation.
    """

    def __init__(self, parts: Sequence[Feed]) -> None:
        self._parts = tuple(parts)
        self.steps_per_epoch = parts[0].steps_per_epoch
        self.adaptive: Any = None

    def longest_chunk(self, step: int) -> int:
        """See `Feed`."""
        return min(part.longest_chunk(step) for part in self._parts)

    def chunk(self, step: int) -> tuple[Any, ...]:
        """What a chunk of each part needs that begins after `step` updates."""
        return tuple(part.chunk(step) for part in self._parts)

    def whole(self, step: int) -> tuple[Any, ...]:
        """Return all points of each part as they are after `step` updates."""
        return tuple(part.whole(step) for part in self._parts)
