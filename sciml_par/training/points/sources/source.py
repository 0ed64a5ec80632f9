"""What a feed takes the points of one set from: all of them, or some at every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Arrays = tuple[Array, ...]
Flags = tuple[bool, ...]

ENDLESS = 2**31 - 1  # steps, where nothing has to be drawn between two chunks


class Source(ABC):
    """This rank's rows of one set of points, step for step; several terms may share them.

    A part is a pair: the weights of the terms, and the arrays of the set.

    Attributes
    ----------
    stacked : which of the weights and of the arrays have an axis for members.
    steps_per_epoch, longest_chunk, chunk : as those of a feed.
    take : (data of a chunk, step) -> a step's part. It is traced into the loop and holds no points,
        so that a compiled loop that is kept does not keep those of the first training.
    form : what sources that can be stacked have in common, apart from the shapes of their arrays.
    """

    stacked: tuple[Flags, Flags]
    steps_per_epoch: int = 1
    take: Any
    form: tuple[Any, ...]

    @abstractmethod
    def longest_chunk(self, step: int) -> int: ...

    @abstractmethod
    def chunk(self, step: int) -> Any: ...

    @abstractmethod
    def whole(self, step: int) -> tuple[Any, Any]:
        """Return the weights and arrays of all of this rank's points."""

    @abstractmethod
    def stack(self, sources: Sequence[Any]) -> Source:
        """Return the sources of M members of this form, this one first, as one."""


def differing(members: Sequence[Sequence[Array]]) -> Flags:
    """Return which of several arrays the members do not have in common."""
    return tuple(
        not all(np.array_equal(each[0], other) for other in each[1:])
        for each in zip(*members, strict=True)
    )
