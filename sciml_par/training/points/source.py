"""What a feed takes the points of one set from: all of them, or some at every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Tensor = Any
Data = Any
Array = npt.NDArray[np.float64]
Flags = tuple[bool, ...]

ENDLESS = 2**31 - 1
"""The longest chunk where nothing has to be drawn between two chunks."""


class Source(ABC):
    """This rank's rows of one set of points, step for step; several terms may share them.

    A part is a pair: the weights of the terms, and the arrays of the set.

    Attributes
    ----------
    stacked : which of the weights and of the arrays have an axis for members.
    steps_per_epoch : as that of a feed.
    """

    stacked: tuple[Flags, Flags]
    steps_per_epoch: int = 1

    def longest_chunk(self, step: int) -> int:
        """As that of a feed (local)."""
        return ENDLESS

    @abstractmethod
    def chunk(self, step: int) -> Data:
        """As that of a feed (local)."""

    @abstractmethod
    def batch(self, data: Data, step: Tensor) -> tuple[Any, Any]:
        """The weights and arrays of a step; traced into the loop (local)."""

    @abstractmethod
    def whole(self, step: int) -> tuple[Any, Any]:
        """The weights and arrays of all of this rank's points (local)."""


def stack(arrays: Sequence[Array], rows: int) -> tuple[Array, bool]:
    """One array for all members where theirs are equal, else [M, …] and True (local).

    Scalars that differ, which are weights, become [M, rows].
    """
    first = arrays[0]
    if all(np.array_equal(first, other) for other in arrays[1:]):
        return first, False
    if any(array.ndim == 0 for array in arrays):
        arrays = [np.broadcast_to(array, [rows]) for array in arrays]
    return np.stack(list(arrays)), True


def stack_all(members: Sequence[Sequence[Array]], rows: int) -> tuple[tuple[Array, ...], Flags]:
    """`stack` for each of several arrays (local)."""
    pairs = [stack(arrays, rows) for arrays in zip(*members, strict=True)]
    return tuple(array for array, _ in pairs), tuple(flag for _, flag in pairs)
