"""What a feed takes the points of one set from: all of them, or some at every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Tensor = Any
Data = Any
Array = npt.NDArray[np.float64]
Flags = tuple[bool, ...]

ENDLESS = 2**31 - 1  # steps, where nothing has to be drawn between two chunks


class Take(Protocol):
    """What is traced into the loop: the weights and arrays of a step, from a chunk's data.

    It holds numbers only, no points, so that a compiled loop that is kept for further trainings
    does not keep the points of the first. Equal ones compute the same of data of equal shapes.
    """

    def __call__(self, data: Data, step: Tensor) -> tuple[Any, Any]:
        """Return the weights of the terms, and the arrays of the set, after `step` updates."""

    def __hash__(self) -> int:
        """Equal for equal ones."""


class Source(ABC):
    """This rank's rows of one set of points, step for step; several terms may share them.

    A part is a pair: the weights of the terms, and the arrays of the set.

    Attributes
    ----------
    stacked : which of the weights and of the arrays have an axis for members.
    steps_per_epoch : as that of a feed.
    take : makes a step's part from the data of a chunk.
    form : what sources have in common that can be stacked, beside the shapes of their arrays.
    """

    stacked: tuple[Flags, Flags]
    steps_per_epoch: int = 1
    take: Take
    form: tuple[Any, ...]

    def longest_chunk(self, step: int) -> int:
        """As that of a feed."""
        return ENDLESS

    @abstractmethod
    def chunk(self, step: int) -> Data:
        """As that of a feed."""

    @abstractmethod
    def whole(self, step: int) -> tuple[Any, Any]:
        """Return the weights and arrays of all of this rank's points."""

    @abstractmethod
    def stack(self, sources: Sequence[Any]) -> Source:
        """Return the sources of M members of this form, this one first, as one."""


def stack_all(members: Sequence[Sequence[Array]]) -> tuple[tuple[Array, ...], Flags]:
    """Return each of several arrays once if the members' are equal, else as [M, …], and which."""
    flags = differing(members)
    leaves = zip(zip(*members, strict=True), flags, strict=True)
    return tuple(np.stack(each) if own else each[0] for each, own in leaves), flags


def differing(members: Sequence[Sequence[Array]]) -> Flags:
    """Return which of several arrays the members do not have in common."""
    return tuple(
        not all(np.array_equal(each[0], other) for other in each[1:])
        for each in zip(*members, strict=True)
    )
