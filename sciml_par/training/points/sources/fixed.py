"""The same points at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.training.points.sources.source import Array, Flags, Source, stack_all

Tensor = Any


@dataclass(frozen=True)
class TakeAll:
    """The data of the chunk as they are; see `Take`."""

    def __call__(self, data: Any, step: Tensor) -> Any:
        """See `Take`."""
        return data


class Fixed(Source):
    """All of this rank's points at every step.

    Parameters
    ----------
    weights : one for each term, [] or [n]; [M] or [M, n] where stacked.
    arrays : [n, …]; [M, n, …] where stacked.
    dtype : of the tensors.
    stacked : which of them are stacked; by default none.
    """

    take = TakeAll()
    form = ("all",)

    def __init__(
        self,
        weights: Sequence[Array],
        arrays: Sequence[Array],
        dtype: str,
        *,
        stacked: tuple[Flags, Flags] | None = None,
    ) -> None:
        self.dtype = dtype
        self.stacked = stacked or ((False,) * len(weights), (False,) * len(arrays))
        self.weights = tuple(np.asarray(weight, dtype) for weight in weights)
        self.arrays = tuple(np.asarray(array, dtype) for array in arrays)
        self._part: Any = None

    def stacked_as(self, wanted: tuple[Flags, Flags], members: int) -> Fixed:
        """Return the same with copies for the members of what is to be stacked and is not."""
        leaves = [
            [
                np.repeat(leaf[None], members, axis=0) if flag and not now else leaf
                for leaf, flag, now in zip(part, flags, is_now, strict=True)
            ]
            for part, flags, is_now in zip(
                (self.weights, self.arrays), wanted, self.stacked, strict=True
            )
        ]
        return Fixed(leaves[0], leaves[1], self.dtype, stacked=wanted)

    def chunk(self, step: int) -> Any:
        """See `Source`."""
        return self.whole(step)

    def whole(self, step: int) -> Any:
        """See `Source`."""
        if self._part is None:
            self._part = tuple(
                tuple(tf.constant(leaf, self.dtype) for leaf in leaves)
                for leaves in (self.weights, self.arrays)
            )
        return self._part


def stack_fixed(sources: Sequence[Fixed]) -> Fixed:
    """Those of M members as one."""
    weights, weights_stacked = stack_all([source.weights for source in sources])
    arrays, arrays_stacked = stack_all([source.arrays for source in sources])
    return Fixed(weights, arrays, sources[0].dtype, stacked=(weights_stacked, arrays_stacked))
