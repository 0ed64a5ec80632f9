"""A pool of points, of which a step takes all rows or a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.points.division import Place, Purpose, generator, piece
from sciml_par.training.points.point_sets import PointSet
from sciml_par.training.points.sources.source import (
    ENDLESS,
    Array,
    Arrays,
    Flags,
    Source,
    differing,
)

IntArray = npt.NDArray[np.int32]
Tensor = Any

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


_MOST_STEPS, _MOST_NUMBERS = 512, 2**21  # of a pool that is drawn anew
_MOST_BATCHES, _MOST_INDICES = 2048, 2**20


@dataclass(frozen=True)
class TakeRows:
    """Take the rows of a step from the pool; equal ones compute the same of data of equal shapes.

    Attributes
    ----------
    period, draws : the number of steps that have the same points, and of draws in the pool.
    window : the number of steps with indices; 0 where each step takes all rows of its draw.
    stacked : which weights and arrays of the pool are stacked.
    scalars : which weights have no rows.
    """

    period: int
    draws: int
    window: int
    stacked: tuple[Flags, Flags]
    scalars: Flags

    def __call__(self, data: Any, step: Tensor) -> Any:
        weights, arrays, indices = data
        if self.window:
            rows = tf.gather(indices, tf.cast(step % self.window, tf.int32))
            flags, of_arrays = self.stacked
            given = zip(weights, flags, self.scalars, strict=True)
            weights = tuple(w if scalar else _rows_of(w, rows, own) for w, own, scalar in given)
            arrays = tuple(_rows_of(a, rows, own) for a, own in zip(arrays, of_arrays, strict=True))
        elif self.period < ENDLESS:
            draw = tf.cast((step // self.period) % self.draws, tf.int32)
            arrays = tuple(tf.gather(array, draw) for array in arrays)
        return weights, arrays


class Redrawn(NamedTuple):
    """A set of `total` points that is drawn anew every `every` steps."""

    point_set: PointSet
    every: int
    total: int
    place: Place


@dataclass(frozen=True, eq=False)
class Share:
    """One member's points on one rank.

    Attributes
    ----------
    own : this rank's rows before the first step.
    weights : w/N of each term for these: [] or [n].
    everyone, batch_weights : the rows of all ranks, and the weights of a batch of them, [] or [N];
        if there are batches.
    redrawn : the later draws, if there are any.
    """

    own: Arrays
    weights: Sequence[Array]
    everyone: Arrays = ()
    batch_weights: Sequence[Array] = ()
    redrawn: Redrawn | None = None

    def rows(self, first: int, count: int, *, of_all: bool = False) -> Arrays:
        """Return the rows of `count` draws one below the other, of all ranks or of this one."""
        if self.redrawn is None:
            return self.everyone if of_all else self.own
        point_set, _, _, place = self.redrawn
        draws = [point_set.points(first + i) for i in range(count)]
        if not of_all:
            along = not point_set.given
            rows = [place.own_rows(points[0], along_axis=along) for points in draws]
            draws = [tuple(a[n] for a in points) for points, n in zip(draws, rows, strict=True)]
        return point_set.complete(tuple(map(np.concatenate, zip(*draws, strict=True))))


class Pool(Source):
    """Points of M stacked members, from which the loop takes those of a step.

    The host draws points and indices for a window of steps at a time. Windows start at fixed steps,
    wherever chunks start. With batches, every rank has the points of all ranks.

    Parameters
    ----------
    shares : of the members.
    orders : of their batches; none where each step uses all points.
    dtype : of the tensors.
    """

    take: TakeRows

    def __init__(self, shares: Sequence[Share], orders: Sequence[Order], dtype: str) -> None:
        self._shares, self.dtype = tuple(shares), dtype
        self._orders = tuple(orders[:1] if len(set(orders)) == 1 else orders)
        first, batches = shares[0], bool(orders)
        self._period = first.redrawn.every if first.redrawn else ENDLESS
        self.fixed = not batches and first.redrawn is None
        weights = [each.batch_weights if batches else each.weights for each in shares]
        self._differing = flags = differing(weights), self._differing_arrays()
        scalars = tuple(np.ndim(weight) == 0 for weight in weights[0])
        # Members with separate orders have separate rows of what they share in the pool.
        several = len(self._orders) > 1
        self.stacked = (
            tuple(d or (several and not s) for d, s in zip(flags[0], scalars, strict=True)),
            tuple(d or several for d in flags[1]),
        )
        self._batch_weights = tuple(zip(*weights, strict=True))
        self._draws, window = self._draws_in_a_pool(), 0
        if batches:
            self.steps_per_epoch = -(-orders[0].total // orders[0].size)
            # On the rank with the most points, so that it is the same on all ranks.
            numbers = len(self._orders) * -(-orders[0].size // orders[0].ranks)
            window = max(1, min(_MOST_BATCHES, _MOST_INDICES // numbers))
        self.take = TakeRows(self._period, self._draws, window, flags, scalars)
        sizes = (orders[0].total, orders[0].size) if batches else ()
        self.form = ("pool", self._period, *sizes)
        self._kept: dict[str, tuple[int, Any]] = {}

    def longest_chunk(self, step: int) -> int:
        windows = [self.take.window] if self.take.window else []
        if self._period < ENDLESS:
            windows.append(self._draws * self._period)
        return min([window - step % window for window in windows], default=ENDLESS)

    def chunk(self, step: int) -> Any:
        if self.fixed:
            return (*self.whole(step), ())
        number = step // (self._draws * self._period)
        pool = self._known("pool", number, self._pool)
        window = self.take.window
        if not window:
            return (*pool, ())
        return (*pool, self._known("indices", step // window, self._indices))

    def whole(self, step: int) -> Any:
        return self._known("whole", step // self._period, self._whole)

    def stack(self, sources: Sequence[Any]) -> Pool:
        shares = [share for source in sources for share in source._shares]
        return Pool(shares, [order for source in sources for order in source._orders], self.dtype)

    def _known(self, name: str, number: int, make: Callable[[int], Any]) -> Any:
        """Return the last value of a name, if it has this number, or make a new one."""
        if name not in self._kept or self._kept[name][0] != number:
            self._kept[name] = number, make(number)
        return self._kept[name][1]

    def _pool(self, number: int) -> tuple[Any, Any]:
        """Return the weights and arrays of a window of draws."""
        first, of_all = number * self._draws, bool(self._orders)
        arrays = [share.rows(first, self._draws, of_all=of_all) for share in self._shares]
        if not of_all:  # an axis for the draws
            arrays = [tuple(_divided(a, self._draws) for a in each) for each in arrays]
        of_weights, of_arrays = self._differing
        weights = self._joined(self._batch_weights, of_weights)
        return weights, self._joined(zip(*arrays, strict=True), of_arrays, axis=int(not of_all))

    def _whole(self, draw: int) -> tuple[Any, Any]:
        arrays = [share.rows(draw, 1) for share in self._shares]
        weights = zip(*(share.weights for share in self._shares), strict=True)
        of_weights, of_arrays = self.stacked
        joined = self._joined(zip(*arrays, strict=True), of_arrays)
        return self._joined(weights, of_weights), joined

    def _indices(self, number: int) -> Tensor:
        """Return which rows of the pool the steps of a window take, [window, n] or [window, M, n].

        Draws lie one below the other in a pool.
        """
        window = self.take.window
        first = number * window
        rows = [order.batches(first, window) for order in self._orders]
        draws = (np.arange(first, first + window) // self._period) % self._draws
        offsets = (draws * self._orders[0].total)[:, None]
        rows = [each + offsets for each in rows]
        return tf.constant(rows[0] if len(rows) == 1 else np.stack(rows, axis=1), tf.int32)

    def _joined(self, leaves: Any, flags: Flags, axis: int = 0) -> tuple[Tensor, ...]:
        """Return shared arrays once, and the others with an axis for the members."""
        return tuple(
            tf.constant(np.stack(members, axis=axis) if own else members[0], self.dtype)
            for members, own in zip(leaves, flags, strict=True)
        )

    def _differing_arrays(self) -> Flags:
        """Return which arrays the members do not have in common, in any draw.

        Members of one problem and seed have the same draws.
        """
        places = [share.redrawn.place for share in self._shares if share.redrawn is not None]
        if places:
            apart = any(place != places[0] for place in places)
            return (apart,) * len(self._shares[0].own)
        return differing([share.everyone if self._orders else share.own for share in self._shares])

    def _draws_in_a_pool(self) -> int:
        """Return how many draws a pool has; the same on all ranks, whose chunks are alike."""
        own, redrawn = self._shares[0].own, self._shares[0].redrawn
        if redrawn is None:
            return 1
        rows = redrawn.total if self._orders else -(-redrawn.total // redrawn.place.size)
        numbers = rows * sum(math.prod(array.shape[1:]) for array in own) * len(self._shares)
        return max(1, min(-(-_MOST_STEPS // self._period), _MOST_NUMBERS // max(1, numbers)))


def _divided(array: Array, count: int) -> Array:
    """Return [count · n, …] as [count, n, …]."""
    return array.reshape(count, len(array) // count, *array.shape[1:])


def _rows_of(values: Tensor, rows: Tensor, stacked: bool) -> Tensor:
    """Return rows [n] or [M, n] of values [N, …] or, stacked, [M, N, …]."""
    if rows.shape.rank == 1:
        return tf.gather(values, rows, axis=1 if stacked else 0)
    return tf.gather(values, rows, batch_dims=1) if stacked else tf.gather(values, rows)
