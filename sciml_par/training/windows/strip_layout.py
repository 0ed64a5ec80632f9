"""Which windows, and which of their columns, are in which strip and on which rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.rows import WindowRows

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ALIKE = 1e-9
"""Of the extent, by which middles differ by rounding."""


def pairs_of(rows: WindowRows) -> list[tuple[int, int]]:
    """Return the pairs k ≥ l of windows that share rows of this rank (local)."""
    numbers = sorted(rows.blocks)
    if not numbers:
        return []
    owner = np.concatenate([np.full(len(rows.blocks[k][0]), k) for k in numbers])
    row = np.concatenate([rows.blocks[k][0] for k in numbers])
    order = np.lexsort((owner, row))
    owner, row = owner[order], row[order]
    pairs = {(k, k) for k in numbers}
    for shift in range(1, len(row)):
        same = row[shift:] == row[:-shift]
        if not same.any():
            break
        pairs |= set(zip(owner[shift:][same].tolist(), owner[:-shift][same].tolist(), strict=True))
    return sorted(pairs)


class Strips:
    """Which windows are in which strip, and which rank has which strips.

    A strip has the windows at the same distance from the first ones, in steps from a window to one
    that shares rows with it. So only windows in one strip or in neighbouring ones share rows. If
    the first and the last windows do, by periodic conditions, each strip has windows of both sides.
    """

    def __init__(
        self, partition: Partition, axis: int, rows: WindowRows, ranks: Communicator
    ) -> None:
        pairs = set().union(*ranks.allgather_object(pairs_of(rows)))
        middle = np.mean(partition.boxes(), axis=0)[:, axis]
        self.of_window = _distances(pairs, middle)
        self.count = int(self.of_window.max()) + 1
        self.active = min(ranks.size, self.count)
        counts = np.zeros(self.count)
        for k, (i, _) in rows.blocks.items():
            counts[self.of_window[k]] += len(i)
        self.first = _balanced(summed(counts, ranks), self.active)
        owners = np.searchsorted(self.first, np.arange(self.count), side="right") - 1
        self.owner_of_window = owners[self.of_window]

    def of_rank(self, rank: int) -> list[int]:
        """Return the strips of a rank; none where there are more ranks than strips."""
        if rank >= self.active:
            return []
        ends = [*self.first, self.count]
        return list(range(ends[rank], ends[rank + 1]))

    def before(self, k: int, other: int) -> bool:
        """Return whether window k comes before another one."""
        return (int(self.of_window[k]), k) < (int(self.of_window[other]), other)


def _distances(pairs: set[tuple[int, int]], middle: Array) -> IntArray:
    """Return the least number of steps from coupled window to coupled window, [K].

    The first windows are those whose middle: [K] is least. What couples differs by one at most.
    """
    couples = np.array(sorted(pairs)).reshape(-1, 2)
    found = np.full(len(middle), -1)
    waiting = np.isin(np.arange(len(middle)), couples)
    step = 0
    here = np.zeros(len(middle), bool)
    while waiting.any():
        if not here.any():
            here = waiting & (middle <= middle[waiting].min() + _ALIKE * np.ptp(middle))
        found[here], waiting = step, waiting & ~here
        reached = np.concatenate([couples[here[couples[:, i]], 1 - i] for i in (0, 1)])
        here, step = np.isin(np.arange(len(middle)), reached) & waiting, step + 1
    return np.maximum(found, 0)


def _balanced(counts: Array, size: int) -> list[int]:
    """Return the first strip of each rank, so that all ranks have about as many rows."""
    ends = np.concatenate([[0.0], np.cumsum(counts)])
    first = [int(np.argmin(np.abs(ends - ends[-1] * rank / size))) for rank in range(size)]
    for rank in range(1, size):  # one strip at least for each
        first[rank] = max(first[rank], first[rank - 1] + 1)
    for rank in reversed(range(size)):
        first[rank] = min(first[rank], len(counts) - (size - rank))
    return first


class Layout:
    """Where the columns of windows are, strip by strip."""

    def __init__(self, strips: Strips, sizes: IntArray) -> None:
        self._windows: list[list[int]] = [[] for _ in range(strips.count)]
        self._sizes = {int(k): int(sizes[k]) for k in np.flatnonzero(sizes)}
        for k in self._sizes:
            self._windows[strips.of_window[k]].append(k)
        self._starts: dict[int, int] = {}
        at, ends = 0, [0]
        for each in self._windows:
            for k in each:
                self._starts[k] = at
                at += self._sizes[k]
            ends.append(at)
        self.size, self._ends = at, ends

    @property
    def windows(self) -> list[int]:
        """The numbers of the windows that have columns."""
        return list(self._sizes)

    def window(self, k: int) -> slice:
        """Return the place of a window."""
        return slice(self._starts[k], self._starts[k] + self._sizes[k])

    def place(self, strip: int) -> slice:
        """Return the place of a strip."""
        return slice(self._ends[strip], self._ends[strip + 1])

    def size_of_strip(self, strip: int) -> int:
        """Return how many columns a strip has."""
        return self._ends[strip + 1] - self._ends[strip]

    def split(self, y: Array) -> dict[int, Array]:
        """Return the coefficients of each window."""
        return {k: y[self.window(k)] for k in self._starts}

    def strips(self, right: Array) -> list[Array]:
        """Return the rows of each strip."""
        return [right[self.place(j)] for j in range(len(self._windows))]

    def diagonal(self, strip: int, blocks: dict[Any, Array]) -> Array:
        """Return D_j."""
        found = self._filled(strip, strip, blocks)
        return np.tril(found) + np.tril(found, -1).T

    def coupling(self, strip: int, blocks: dict[Any, Array]) -> Array:
        """Return E_{j-1}, of a strip to the one before."""
        return self._filled(strip, strip - 1, blocks)

    def _filled(self, row: int, column: int, blocks: dict[Any, Array]) -> Array:
        found = np.zeros((self.size_of_strip(row), self.size_of_strip(column)))
        for k in self._windows[row]:
            for other in self._windows[column]:
                if (k, other) in blocks:
                    a, b = (
                        self._starts[k] - self._ends[row],
                        self._starts[other] - self._ends[column],
                    )
                    part = blocks[k, other]
                    found[a : a + part.shape[0], b : b + part.shape[1]] = part
        return found
