"""The order in which batches take points: one permutation after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.training.points.generators import Purpose, generator

_NUMBERS_TOGETHER = 2**14
"""Permutations are drawn for as many epochs at a time: a generator takes longer to make than a
short permutation."""


@dataclass(frozen=True)
class Order:
    """A stream of random permutations of N points, which batches cut into pieces of equal size.

    Batch k has the numbers from k·b to (k + 1)·b of the stream, and a batch in which a permutation
    ends goes on with the next. So all batches have b points, and after any number of steps no point
    has been used more than once oftener than another.

    Attributes
    ----------
    seed, key : from which the permutations are drawn.
    total : N.
    size : b.
    """

    seed: int
    key: tuple[int, ...]
    total: int
    size: int

    def batches(self, first: int, count: int, columns: tuple[int, int]) -> npt.NDArray[np.int32]:
        """Which points `count` batches have, from batch `first` on: [count, n]."""
        start = np.arange(first, first + count, dtype=np.int64)[:, None] * self.size
        places = (start + np.arange(*columns, dtype=np.int64)).ravel()
        chosen = np.empty(len(places), np.int32)
        epochs, offsets = np.divmod(places, self.total)
        together = max(1, _NUMBERS_TOGETHER // self.total)
        blocks = epochs // together
        for block in np.unique(blocks):
            # Places ascend, so those of one block lie together.
            low, high = np.searchsorted(blocks, [block, block + 1])
            epoch = epochs[low:high] % together
            permutations = self._permutations(int(block), int(epoch[-1]) + 1)
            chosen[low:high] = permutations[epoch, offsets[low:high]]
        return chosen.reshape(count, columns[1] - columns[0])

    def _permutations(self, block: int, count: int) -> npt.NDArray[np.int32]:
        """Return the first `count` permutations of a block, [count, N]."""
        rng = generator(self.seed, Purpose.ORDER, *self.key, block)
        permutations = np.empty((count, self.total), np.int32)
        for row in permutations:
            row[:] = rng.permutation(self.total)
        return permutations
