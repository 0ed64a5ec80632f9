"""The order in which batches take points: one random permutation after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.training.points.division import Purpose, generator, piece
from sciml_par.training.points.sources.source import ENDLESS

IntArray = npt.NDArray[np.int32]

# Permutations are drawn for several epochs at a time: making a generator takes longer than
# drawing a short permutation.
_NUMBERS_TOGETHER = 2**14


@dataclass(frozen=True)
class Order:
    """A stream of random permutations of N points, which batches cut into pieces of equal size.

    Batch k has the numbers from k·b to (k + 1)·b of the stream, and a batch in which a permutation
    ends continues with the next. So all batches have b points, and the uses of two points differ by
    at most one. Points that are drawn anew have a new stream.

    `number` is that of the set of points, `total` and `size` are N and b. Each rank has a part of
    each batch. `period` is the number of steps between two draws of the points.
    """

    seed: int
    number: int
    total: int
    size: int
    rank: int
    ranks: int
    period: int

    def batches(self, first: int, count: int) -> IntArray:
        """Return which points of their draw the batches of `count` steps have: [count, n]."""
        end, found = first + count, []
        while first < end:
            draw, before = divmod(first, self.period)
            steps = min(end, (draw + 1) * self.period) - first
            key = (self.number,) if self.period == ENDLESS else (self.number, draw)
            found.append(self._of_one_stream(key, before, steps))
            first += steps
        return np.concatenate(found)

    def _of_one_stream(self, key: tuple[int, ...], first: int, count: int) -> IntArray:
        start = np.arange(first, first + count, dtype=np.int64)[:, None] * self.size
        columns = np.arange(*piece(self.size, self.rank, self.ranks), dtype=np.int64)
        places = (start + columns).ravel()
        chosen = np.empty(len(places), np.int32)
        epochs, offsets = np.divmod(places, self.total)
        together = max(1, _NUMBERS_TOGETHER // self.total)
        blocks = epochs // together
        for block in np.unique(blocks):
            # Places ascend, so those of one block lie together.
            low, high = np.searchsorted(blocks, [block, block + 1])
            epoch = epochs[low:high] % together
            rng = generator(self.seed, Purpose.ORDER, *key, int(block))
            permutations = np.empty((int(epoch[-1]) + 1, self.total), np.int32)
            for row in permutations:
                row[:] = rng.permutation(self.total)
            chosen[low:high] = permutations[epoch, offsets[low:high]]
        return chosen.reshape(count, len(columns))
