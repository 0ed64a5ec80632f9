"""The place of a rank among those that share a model, and which points are its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """A rank among those that share a model, and what its random numbers depend on.

    Attributes
    ----------
    problem : whose points are divided.
    rank, size : in the group of ranks.
    seed : of points and batches.
    dtype : of the tensors.
    bootstrap : the seed of the member's sample of these points; None for all as they are.
    block : how many successive points are drawn together for that sample.
    """

    problem: Problem
    rank: int
    size: int
    seed: int
    dtype: str
    bootstrap: int | None
    block: int = 1

    @property
    def axis(self) -> int:
        """The coordinate along which the ranks' points lie one after the other."""
        return longest_axis(self.problem.domain)

    def piece(self, n: int) -> tuple[int, int]:
        """Return from where to where of n rows this rank has."""
        return piece(n, self.rank, self.size)

    def rows_of_ranks(self, n: int) -> tuple[int, ...]:
        """Return how many of n rows each rank has, [P]."""
        pieces = (piece(n, rank, self.size) for rank in range(self.size))
        return tuple(end - first for first, end in pieces)

    def own_rows(self, x: FloatArray, *, along_axis: bool) -> IntArray:
        """Return the numbers of the rows of x: [n, d] that are this rank's."""
        first, end = self.piece(len(x))
        # One rank has the points in their given order, which captured arrays may rely on.
        if not along_axis or self.size == 1:
            return np.arange(first, end)
        return np.argsort(x[:, self.axis], kind="stable")[first:end]

    def slab(self, x: FloatArray) -> Domain | None:
        """Return the part of the box around the domain between the points of neighbouring ranks.

        x: [n, d], all points. None where the part is empty or has no thickness.
        """
        domain, axis = self.problem.domain, self.axis
        if self.size == 1:
            return domain
        sorted_x = np.sort(x[:, axis])
        first, end = self.piece(len(x))
        lower, upper = domain.lower.copy(), domain.upper.copy()
        if first > 0:
            lower[axis] = sorted_x[first - 1 : first + 1].mean()
        if end < len(x):
            upper[axis] = sorted_x[end - 1 : end + 1].mean()
        if first == end or not lower[axis] < upper[axis]:
            return None
        if isinstance(domain, Box):
            return domain.with_bounds(lower, upper)
        return Box(lower, upper, names=domain.names)


def piece(n: int, rank: int, size: int) -> tuple[int, int]:
    """Return from where to where of n rows a rank has; the first ranks have one row more."""
    each, more = divmod(n, size)
    first = rank * each + min(rank, more)
    return first, first + each + (rank < more)


def longest_axis(domain: Domain) -> int:
    """Return the axis along which a domain is divided; the first among equal ones."""
    return int(np.argmax(domain.extent))
