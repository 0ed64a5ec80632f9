"""Points that follow the residual, as a source of the loop's points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.requests.request import even_rows
from sciml_par.training.points.adapting import Adapting
from sciml_par.training.points.division import Place, Purpose, generator
from sciml_par.training.points.point_sets import PointSet
from sciml_par.training.points.sources.pool import TakeRows
from sciml_par.training.points.sources.source import ENDLESS, Flags, Source, differing

FloatArray = npt.NDArray[np.float64]
Squares = Callable[[Sequence[tuple[FloatArray, ...]]], FloatArray]
"""The arrays of the candidates of this rank, for each member -> |r|² at those of all: [M, C]."""


def stacked(members: Sequence[Sequence[FloatArray]]) -> list[FloatArray]:
    """Return the arrays of one member as they are, and those of several with an axis for them."""
    return [np.stack(each) if len(each) > 1 else each[0] for each in zip(*members, strict=True)]


class Adaptive(Source):
    """Points of all ranks that are chosen by the residual between chunks; this rank has its share.

    What is chosen depends on the weights, so that it is kept in checkpoints, by `kept`.
    """

    take = TakeRows(ENDLESS, 1, 0, ((), ()), ())

    def __init__(
        self,
        sets: Sequence[PointSet],
        adapting: Adapting,
        weights: Sequence[Sequence[float]],
        place: Place,
    ) -> None:
        self.sets, self.weights = tuple(sets), tuple(map(tuple, weights))
        self.adapting, self.place, self.dtype = adapting, place, place.dtype
        of_members = [[np.asarray(w, np.float64) for w in each] for each in weights]
        of_terms, apart = list(zip(*of_members, strict=True)), differing(of_members)
        self.term_weights = [
            np.stack(each) if own else each[0] for each, own in zip(of_terms, apart, strict=True)
        ]
        self._points = [each.points(0)[0] for each in sets]
        first = len(self._points[0])
        self.capacity = adapting.capacity(first)
        self._candidates = adapting.number_of_candidates(self.capacity)
        self._drawn, self._adapted_at = self._candidates, 0
        self.form = ("adaptive", adapting, first, place.seed)
        arrays = len(sets[0].complete((self._points[0],)))
        self.stacked: tuple[Flags, Flags] = (apart, (len(sets) > 1,) * arrays)
        self._part: Any = None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many candidates each rank has, of those drawn last, [P]."""
        return even_rows(self._drawn, self.place.size)

    def longest_chunk(self, step: int) -> int:
        return self.adapting.every - step % self.adapting.every

    def due(self, step: int) -> bool:
        """Return whether points are to be chosen before the update after `step` updates."""
        full = self.adapting.grows and len(self._points[0]) == self.capacity
        on_time = step > 0 and step % self.adapting.every == 0
        return on_time and step != self._adapted_at and not full

    def adapt(self, step: int, squares: Squares) -> None:
        """Choose the points that follow `step` updates (collective, by `squares`)."""
        # Members draw alike, so that stacked ones have the points that each would have alone.
        rng = [generator(self.place.seed, Purpose.ADAPTING, step) for _ in self.sets]
        of_sets = [each.candidates for each in self.sets if each.candidates is not None]
        drawn = [of(self._candidates, own) for of, own in zip(of_sets, rng, strict=True)]
        # A cloud of points has no more than these.
        self._drawn = len(drawn[0])
        begin, end = self.place.piece(self._drawn)
        mine = [each.complete((x[begin:end],)) for each, x in zip(self.sets, drawn, strict=True)]
        found = squares(mine)
        self._points = [
            self.adapting.next_points(
                now, x, r, capacity=self.capacity, rng=own, anchors=each.anchors
            )
            for each, now, x, r, own in zip(self.sets, self._points, drawn, found, rng, strict=True)
        ]
        self._adapted_at, self._part = step, None

    def kept(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a checkpoint holds of the points."""
        return {"points": np.stack(self._points), "adapted_at": np.asarray(self._adapted_at)}

    def restore(self, kept: dict[str, npt.NDArray[Any]]) -> None:
        """Continue with the points of a checkpoint."""
        self._points = list(kept["points"])
        self._adapted_at, self._part = int(kept["adapted_at"]), None

    def chunk(self, step: int) -> Any:
        return (*self.whole(step), ())

    def whole(self, step: int) -> Any:
        if self._part is None:
            weights, arrays = self.rows()
            self._part = (
                tuple(tf.constant(weight, self.dtype) for weight in weights),
                tuple(tf.constant(array, self.dtype) for array in arrays),
            )
        return self._part

    def stack(self, sources: Sequence[Any]) -> Adaptive:
        return Adaptive(
            [each for source in sources for each in source.sets],
            self.adapting,
            [each for source in sources for each in source.weights],
            self.place,
        )

    def rows(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return this rank's weights, for each equation, and arrays."""
        begin, end = self.place.piece(self.capacity)
        members = [
            each.complete((self._filled(x)[begin:end],))
            for each, x in zip(self.sets, self._points, strict=True)
        ]
        return [self._weights(w, begin, end) for w in self.term_weights], stacked(members)

    def _filled(self, x: FloatArray) -> FloatArray:
        """Return points [n, d] as [capacity, d], of which those that fill up have the weight 0."""
        missing = self.capacity - len(x)
        return np.concatenate([x, np.repeat(x[:1], missing, axis=0)]) if missing else x

    def _weights(self, w: FloatArray, begin: int, end: int) -> FloatArray:
        """Return w/N: [] or [M]; with an axis for the points where there will be more of them."""
        number = len(self._points[0])
        if not self.adapting.grows:
            return np.asarray(w / number)
        return w[..., None] / number * (np.arange(begin, end) < number)
