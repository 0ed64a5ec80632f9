"""Which windows, and which of their columns, are in which strip and on which rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from sciml_par.algebra.banded import Block
from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.windows.exchange import summed

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ALIKE = 1e-9
"""Of the extent, by which middles differ by rounding."""


class Strips:
    """Which windows are in which strip, and which rank has which strips.

    A strip has the windows at the same distance from the first ones, in steps from a window to one
    that shares rows with it. So only windows in one strip or in neighbouring ones share rows. If
    the first and the last windows do, by periodic conditions, each strip has windows of both sides.

    Parameters
    ----------
    blocks : the rows of windows on this rank.
    common : the pairs of windows that share some of them.
    """

    def __init__(
        self,
        partition: Partition,
        axis: int,
        blocks: Mapping[int, Block],
        common: Iterable[tuple[int, int]],
        ranks: Communicator,
    ) -> None:
        coupled = [*common, *((k, k) for k in blocks)]
        pairs = set().union(*ranks.allgather_object(coupled))
        middle = np.mean(partition.boxes(), axis=0)[:, axis]
        self.of_window = _distances(pairs, middle)
        self.count = int(self.of_window.max()) + 1
        self.active = min(ranks.size, self.count)
        counts = np.zeros(self.count)
        for k, block in blocks.items():
            counts[self.of_window[k]] += len(block.rows)
        first = _balanced(summed(counts, ranks), self.active)
        self._owners = np.searchsorted(first, np.arange(self.count), side="right") - 1
        self.owner_of_window = self._owners[self.of_window]

    def of_rank(self, rank: int) -> list[int]:
        """Return the strips of a rank; none where there are more ranks than strips."""
        return [int(j) for j in np.flatnonzero(self._owners == rank)]

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
    """Where the columns of windows are, strip by strip, for so many of each window: sizes [K]."""

    def __init__(self, strips: Strips, sizes: IntArray) -> None:
        self._strip = strips.of_window
        order = np.argsort(self._strip, kind="stable")
        ends = np.zeros(len(sizes), int)
        ends[order] = np.cumsum(sizes[order])
        self._starts, self._ends, self.size = ends - sizes, ends, int(sizes.sum())
        in_strips = np.bincount(self._strip, sizes, strips.count).astype(int)
        self._of_strips = np.concatenate([[0], np.cumsum(in_strips)])
        self.windows: list[int] = np.flatnonzero(sizes).tolist()
        """The numbers of the windows that have columns."""

    def window(self, k: int) -> slice:
        """Return the place of a window."""
        return slice(int(self._starts[k]), int(self._ends[k]))

    def strip(self, j: int) -> slice:
        """Return the place of a strip."""
        return slice(int(self._of_strips[j]), int(self._of_strips[j + 1]))

    def width(self, j: int) -> int:
        """Return how many columns a strip has."""
        return int(self._of_strips[j + 1] - self._of_strips[j])

    def matrices(
        self, strips: Iterable[int], blocks: dict[tuple[int, int], Array]
    ) -> tuple[dict[int, Array], dict[int, Array]]:
        """Return D_j, of which the lower triangle counts, and E_{j-1} of strips; empty the blocks.

        blocks : N_kl for the windows k of the strips and l before them.
        """
        diagonals = {j: np.zeros((self.width(j),) * 2) for j in strips}
        couplings = {j: np.zeros((self.width(j), self.width(j - 1))) for j in diagonals if j}
        for (k, other), block in blocks.items():
            j, i = self._strip[k], self._strip[other]
            matrix = diagonals[j] if i == j else couplings[j]
            a, b = self._starts[k] - self._of_strips[j], self._starts[other] - self._of_strips[i]
            matrix[a : a + len(block), b : b + block.shape[1]] = block
        blocks.clear()
        return diagonals, couplings
