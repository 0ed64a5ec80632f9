"""Points that are drawn anew: all of them every few steps, or those of a batch at every step."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sciml_par.training.points.division import own_rows, piece
from sciml_par.training.points.order import Order
from sciml_par.training.points.point_sets import Arrays, PointSet


class Draws(Protocol):
    """This rank's rows of a set of points that is drawn anew every `every` steps.

    Attributes
    ----------
    point_set : whose draws they are.
    period : after how many steps there are other rows.
    rows : n, how many rows there are, each time.
    """

    point_set: PointSet
    period: int
    rows: int

    @property
    def identity(self) -> tuple[Any, ...]:
        """What is equal where two have the same rows at every step, for each array."""

    def window(self, first: int, count: int) -> Arrays:
        """Return the rows of `count` periods from period `first` on: arrays [count, n, …]."""

    def whole(self, step: int) -> Arrays:
        """This rank's rows of all points as they are after `step` updates."""


class WholeDraws:
    """All points of a draw are used at every step; see `Draws`."""

    def __init__(
        self, point_set: PointSet, every: int, *, axis: int | None, rank: int, size: int
    ) -> None:
        self.point_set, self.period = point_set, every
        self._axis, self._rank, self._size = axis, rank, size
        first, end = piece(len(point_set.points(0)[0]), rank, size)
        self.rows = end - first

    @property
    def identity(self) -> tuple[Any, ...]:
        """See `Draws`."""
        return tuple((each, self.period) for each in self.point_set.identity)

    def window(self, first: int, count: int) -> Arrays:
        """See `Draws`."""
        draws = [self._own(first + i) for i in range(count)]
        joined = tuple(np.concatenate(each) for each in zip(*draws, strict=True))
        return _divided(self.point_set.complete(joined), count)

    def whole(self, step: int) -> Arrays:
        """See `Draws`."""
        return self.point_set.complete(self._own(step // self.period))

    def _own(self, draw: int) -> Arrays:
        points = self.point_set.points(draw)
        rows = own_rows(points[0], self._axis, rank=self._rank, size=self._size)
        return tuple(array[rows] for array in points)


class BatchesOfDraws:
    """Every step uses a batch of the points of the draw; see `Draws`."""

    period = 1

    def __init__(
        self,
        draws: WholeDraws,
        size: int,
        *,
        seed: int,
        key: tuple[int, ...],
        columns: tuple[int, int],
    ) -> None:
        self.point_set, self._draws = draws.point_set, draws
        self._size, self._seed, self._key, self._columns = size, seed, key, columns
        self.rows = columns[1] - columns[0]

    @property
    def identity(self) -> tuple[Any, ...]:
        """See `Draws`."""
        return tuple((each, self._size, self._seed, self._key) for each in self._draws.identity)

    def window(self, first: int, count: int) -> Arrays:
        """See `Draws`."""
        every, end = self._draws.period, first + count
        batches = []
        while first < end:
            draw, before = divmod(first, every)
            steps = min(end, (draw + 1) * every) - first
            batches.append(self._batches(draw, before, steps))
            first += steps
        joined = tuple(np.concatenate(each) for each in zip(*batches, strict=True))
        return _divided(self.point_set.complete(joined), count)

    def whole(self, step: int) -> Arrays:
        """See `Draws`."""
        return self._draws.whole(step)

    def _batches(self, draw: int, first: int, count: int) -> Arrays:
        """Return the rows of some batches of a draw, one after the other."""
        points = self.point_set.points(draw)
        order = Order(self._seed, (*self._key, draw), len(points[0]), self._size)
        rows = order.batches(first, count, self._columns).ravel()
        return tuple(array[rows] for array in points)


def _divided(arrays: Arrays, count: int) -> Arrays:
    """[count · n, …] as [count, n, …]."""
    return tuple(array.reshape(count, len(array) // count, *array.shape[1:]) for array in arrays)
