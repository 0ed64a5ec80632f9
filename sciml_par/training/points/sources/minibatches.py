"""Some of the points at every step, all of them once in an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.points.order import Order
from sciml_par.training.points.sources.fixed import Fixed, stack_fixed
from sciml_par.training.points.sources.source import Array, Flags, Source, stack_all

Tensor = Any
IntArray = npt.NDArray[np.int32]

_MOST_BATCHES = 2048
_MOST_NUMBERS = 2**20


@dataclass(frozen=True)
class TakeBatch:
    """The rows of a batch, gathered from all points; see `Take`.

    Attributes
    ----------
    window : for how many steps the indices are.
    stacked : which of the weights and of the arrays of all points are stacked.
    scalars : which weights have no rows.
    """

    window: int
    stacked: tuple[Flags, Flags]
    scalars: Flags

    def __call__(self, data: Any, step: Tensor) -> Any:
        """See `Take`."""
        indices, (weights, arrays) = data
        rows = tf.gather(indices, tf.cast(step % self.window, tf.int32))
        of_weights, of_arrays = self.stacked
        return (
            tuple(
                weight if scalar else _rows_of(weight, rows, stacked)
                for weight, scalar, stacked in zip(weights, self.scalars, of_weights, strict=True)
            ),
            tuple(
                _rows_of(array, rows, stacked)
                for array, stacked in zip(arrays, of_arrays, strict=True)
            ),
        )


class Minibatches(Source):
    """This rank's slice of every batch of the whole job.

    All points are on every rank, since a batch may have any of them. The host draws which points
    the next steps use, for a window of steps at a time, and the loop gathers them. Windows begin at
    fixed steps, so that it does not matter where chunks begin.
    """

    def __init__(
        self,
        weights: Sequence[Array],
        arrays: Sequence[Array],
        all_points: Fixed,
        orders: Sequence[Order],
        columns: tuple[int, int],
        *,
        stacked: tuple[Flags, Flags] | None = None,
    ) -> None:
        self.source = Fixed(weights, arrays, all_points.dtype, stacked=stacked)
        self.all_points, self.orders, self.columns = all_points, tuple(orders), columns
        of_weights, of_arrays = self.source.stacked
        scalars = tuple(
            weight.ndim == flag
            for weight, flag in zip(self.source.weights, of_weights, strict=True)
        )
        # All that has rows is the members' own where these have orders of their own.
        several = len(self.orders) > 1
        self.stacked = (
            tuple(s or (several and not c) for s, c in zip(of_weights, scalars, strict=True)),
            tuple(s or several for s in of_arrays),
        )
        order = self.orders[0]
        self.steps_per_epoch = -(-order.total // order.size)
        numbers = len(self.orders) * max(1, columns[1] - columns[0])
        self.window = max(1, min(_MOST_BATCHES, _MOST_NUMBERS // numbers))
        self.take = TakeBatch(self.window, self.source.stacked, scalars)
        self.form = ("batches", order.total, order.size)
        self._last: tuple[int, Tensor] | None = None

    def longest_chunk(self, step: int) -> int:
        """See `Source`."""
        return self.window - step % self.window

    def chunk(self, step: int) -> Any:
        """See `Source`."""
        number = step // self.window
        if self._last is None or self._last[0] != number:
            self._last = (number, tf.constant(self._indices(number), tf.int32))
        return self._last[1], self.source.chunk(step)

    def whole(self, step: int) -> Any:
        """See `Source`."""
        return self.all_points.whole(step)

    def _indices(self, number: int) -> IntArray:
        drawn = [
            order.batches(number * self.window, self.window, self.columns) for order in self.orders
        ]
        return drawn[0] if len(drawn) == 1 else np.stack(drawn, axis=1)


def _rows_of(values: Tensor, rows: Tensor, stacked: bool) -> Tensor:
    """values: [N, …] or, stacked, [M, N, …]; rows: [n] or, of each member, [M, n]."""
    if rows.shape.rank == 1:
        return tf.gather(values, rows, axis=1 if stacked else 0)
    return tf.gather(values, rows, batch_dims=1) if stacked else tf.gather(values, rows)


def stack_minibatches(sources: Sequence[Minibatches]) -> Minibatches:
    """Those of M members as one."""
    orders = [source.orders[0] for source in sources]
    orders = orders[:1] if len(set(orders)) == 1 else orders
    weights, weights_stacked = stack_all([each.source.weights for each in sources])
    arrays, arrays_stacked = stack_all([each.source.arrays for each in sources])
    found = Minibatches(
        weights,
        arrays,
        stack_fixed([source.all_points for source in sources]),
        orders,
        sources[0].columns,
        stacked=(weights_stacked, arrays_stacked),
    )
    # What members share of all points, they may have apart in a batch; the loop asks for one form.
    found.all_points = found.all_points.stacked_as(found.stacked, len(sources))
    return found
