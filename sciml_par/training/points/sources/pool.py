"""A pool of drawn points from which the loop takes those of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.training.points.draws import Draws
from sciml_par.training.points.sources.source import Array, Flags, Source, stack_all

Tensor = Any

_MOST_STEPS = 512
_MOST_NUMBERS = 2**21


@dataclass(frozen=True)
class TakeDraw:
    """The rows of a step, from those of several; see `Take`.

    Attributes
    ----------
    period : after how many steps there are other rows.
    count : how many of them the data have.
    """

    period: int
    count: int

    def __call__(self, data: Any, step: Tensor) -> Any:
        """See `Take`."""
        weights, pool = data
        row = tf.cast((step // self.period) % self.count, tf.int32)
        return weights, tuple(tf.gather(array, row) for array in pool)


class Pool(Source):
    """Rows that change every few steps.

    The host draws them for a window of steps at a time. Windows begin at fixed steps, so that it
    does not matter where chunks begin.

    Parameters
    ----------
    weights, all_weights : of the terms in a batch and where all points are used: scalars, or [M]
        where members differ.
    draws : of each member; one where all have the same.
    dtype : of the tensors.
    steps_per_epoch : see `Source`.
    weights_stacked : which weights are stacked.
    """

    def __init__(
        self,
        weights: Sequence[Array],
        all_weights: Sequence[Array],
        draws: Sequence[Draws],
        dtype: str,
        *,
        steps_per_epoch: int,
        weights_stacked: Flags | None = None,
    ) -> None:
        self.weights = tuple(np.asarray(weight, dtype) for weight in weights)
        self.all_weights = tuple(np.asarray(weight, dtype) for weight in all_weights)
        self.draws, self.dtype = tuple(draws), dtype
        self.steps_per_epoch = steps_per_epoch
        self.stacked = (weights_stacked or (False,) * len(weights), _differing(self.draws))
        self._period = self.draws[0].period
        shapes = [array.shape[1:] for array in self.draws[0].whole(0)]
        numbers = sum(int(np.prod(shape)) for shape in shapes) * self.draws[0].rows
        fitting = _MOST_NUMBERS // max(1, numbers * len(self.draws))
        self._count = max(1, min(-(-_MOST_STEPS // self._period), fitting))
        self.take = TakeDraw(self._period, self._count)
        self.form = ("drawn", self._period, self.draws[0].rows)
        self._last: tuple[int, Any] | None = None

    def longest_chunk(self, step: int) -> int:
        """See `Source`."""
        window = self._count * self._period
        return window - step % window

    def chunk(self, step: int) -> Any:
        """See `Source`."""
        number = step // (self._count * self._period)
        if self._last is None or self._last[0] != number:
            drawn = [each.window(number * self._count, self._count) for each in self.draws]
            pool = self._joined(drawn, axis=1)
            weights = tuple(tf.constant(weight, self.dtype) for weight in self.weights)
            self._last = (number, (weights, pool))
        return self._last[1]

    def whole(self, step: int) -> Any:
        """See `Source`."""
        weights = tuple(tf.constant(weight, self.dtype) for weight in self.all_weights)
        return weights, self._joined([each.whole(step) for each in self.draws], axis=0)

    def _joined(self, members: Sequence[Sequence[Array]], axis: int) -> tuple[Tensor, ...]:
        """What members share once, the rest with an axis for them."""
        return tuple(
            tf.constant(np.stack(arrays, axis=axis) if stacked else arrays[0], self.dtype)
            for arrays, stacked in zip(zip(*members, strict=True), self.stacked[1], strict=True)
        )


def _differing(draws: Sequence[Draws]) -> Flags:
    """Which arrays the members do not have in common."""
    identities = zip(*(each.identity for each in draws), strict=True)
    return tuple(any(other != each[0] for other in each[1:]) for each in identities)


def stack_pools(pools: Sequence[Pool]) -> Pool:
    """Those of M members as one."""
    draws = [pool.draws[0] for pool in pools]
    weights, stacked = stack_all([pool.weights for pool in pools])
    all_weights, _ = stack_all([pool.all_weights for pool in pools])
    return Pool(
        weights,
        all_weights,
        draws if any(_differing(draws)) else draws[:1],
        pools[0].dtype,
        steps_per_epoch=pools[0].steps_per_epoch,
        weights_stacked=stacked,
    )
