"""What a rank has: its share of the points, and random numbers that are the same on all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.requests.request import even_rows
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

    def piece(self, n: int) -> tuple[int, int]:
        """Return from where to where of n rows this rank has."""
        return piece(n, self.rank, self.size)

    def own_rows(self, x: FloatArray, *, along_axis: bool) -> IntArray:
        """Return the numbers of the rows of x: [n, d] that are this rank's."""
        first, end = self.piece(len(x))
        # One rank has the points in their given order, which captured arrays may rely on.
        if not along_axis or self.size == 1:
            return np.arange(first, end)
        return np.argsort(x[:, longest_axis(self.problem.domain)], kind="stable")[first:end]

    def slab(self, x: FloatArray) -> Domain | None:
        """Return the part of the box around the domain between the points of neighbouring ranks.

        x: [n, d], all points. None where the part is empty or has no thickness.
        """
        domain = self.problem.domain
        if self.size == 1:
            return domain
        axis = longest_axis(domain)
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
    rows = even_rows(n, size)
    first = sum(rows[:rank])
    return first, first + rows[rank]


def longest_axis(domain: Domain) -> int:
    """Return the axis along which a domain is divided; the first among equal ones."""
    return int(np.argmax(domain.extent))


class Purpose(IntEnum):
    """The purpose of random numbers; each purpose has a separate stream."""

    INTERIOR = 1
    CONDITION = 2
    ORDER = 3
    BOOTSTRAP = 4
    ADAPTING = 5


def generator(seed: int, purpose: Purpose, *numbers: int) -> np.random.Generator:
    """Return the generator for a purpose and some counting numbers, such as that of an epoch.

    NumPy's SeedSequence keeps the streams of different keys apart. The same on all ranks.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *numbers))
    return np.random.default_rng(sequence)


def bootstrap_counts(total: int, seed: int, number: int = 0, block: int = 1) -> FloatArray:
    """Return how often each of N points is in a sample of N, drawn with replacement: [N].

    Efron, "Bootstrap methods: another look at the jackknife", Ann. Statist. 7, 1979; in blocks of
    successive points, of which the last is cut, Künsch, Ann. Statist. 17, 1989. The same on all
    ranks, and another sample for each number of a set of points.
    """
    starts = generator(seed, Purpose.BOOTSTRAP, number).integers(
        0, total - block + 1, -(-total // block)
    )
    drawn = (starts[:, None] + np.arange(block)).ravel()[:total]
    return np.bincount(drawn, minlength=total).astype(np.float64)
