"""A smooth partition of unity over windows of different sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.cells import RECIPROCAL, of_one_axis
from sciml_par.networks.propagation.partition import Pairs, Partition
from sciml_par.networks.propagation.propagation import Propagated

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Tensor = Any

_FAR = 1e6
"""Extents of the box to a face that has no neighbour."""


@dataclass(frozen=True)
class RefinedPartition(Partition):
    """Σ_k w_k(x) = 1 where some parts of a `Partition` are split into halves along each axis.

    At a face between parts of the sides h and h′, with s = min(h, h′) and t the distance from the
    face, a part has the factor w(½ + t/s) that rises from 0 to 1, as in `Partition`. With the
    product P_k of the factors of its faces,

        w_k = P_k / Σ_j P_j

    Parts of equal sides have the weights of `Partition`.

    Attributes
    ----------
    splits : numbers of the parts that are split, one after another. The first of the 2^d halves
        has the number of the part, and the others follow after all other parts.
    unused : numbers of parts without a window, P_k = 0. The others reach into them by no more than
        into other parts.
    enriched : numbers of parts whose windows have twice as many features, each time again.
    """

    @property
    def count(self) -> int:
        """The number of windows K."""
        return len(self._cells[0])

    @property
    def slots(self) -> list[tuple[int, ...]]:
        """One for each of the windows that cover one point, at most."""
        return [(each,) for each in range(self._deepest)]

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        """Lower corners and sides of the parts in units of those that are not split, [K, d]."""
        places = itertools.product(*(range(n) for n in self.parts))
        lower = [np.array(each, np.float64) for each in places]
        sides = [1.0] * len(lower)
        for number in self.splits:
            half = sides[number] / 2
            corners = itertools.product((0.0, half), repeat=len(self.parts))
            first, *others = (lower[number] + np.array(each) for each in corners)
            lower[number], sides[number] = first, half
            lower += others
            sides += [half] * len(others)
        return np.array(lower), np.array(sides)[:, None] * np.ones(len(self.parts))

    @cached_property
    def _extent(self) -> FloatArray:
        return np.array(self.upper) - np.array(self.lower)

    @cached_property
    def _coordinates(self) -> tuple[FloatArray, FloatArray]:
        """Centres of the parts, and half of the sides of windows, [K, d] each."""
        low, high = self.boxes()
        return (low + high) / 2, (high - low) * (0.5 + self.overlap)

    @cached_property
    def _touching(self) -> npt.NDArray[np.bool_]:
        """Which parts have a point in common, [K, K]."""
        lower, sides = self._cells
        upper = lower + sides
        met = (lower[:, None] <= upper) & (upper[:, None] >= lower)
        return np.asarray(met.all(axis=2))

    @cached_property
    def _faces(self) -> FloatArray:
        """Both coordinates of the faces of each part, and the lengths s there: [K, 4, d]."""
        (lower, sides), box = self._cells, np.array(self.lower)
        ends = np.zeros(len(self.parts)), np.array(self.parts, np.float64)
        found = np.empty((self.count, 4, len(self.parts)))
        for k in range(self.count):
            others = np.flatnonzero(self._touching[k])
            for side, (own, theirs, end) in enumerate(
                (
                    (lower[k], lower[others] + sides[others], ends[0]),
                    (lower[k] + sides[k], lower[others], ends[1]),
                )
            ):
                # The smallest of those on the other side of the face
                beyond = np.where(theirs == own, sides[others], sides[k]).min(axis=0)
                length = np.minimum(sides[k], beyond) * self.sides
                away = (own == end) * (_FAR * self._extent * (2 * side - 1))
                found[k, side] = box + own * self.sides + away
                found[k, 2 + side] = length
        found[list(self.unused), :2] = np.array(self.upper) + 3 * _FAR * self._extent
        return found

    def supports(self) -> tuple[FloatArray, FloatArray]:
        """Return corners of the windows, [K, d] each; far away where one has no neighbour."""
        return self._supports

    @cached_property
    def _supports(self) -> tuple[FloatArray, FloatArray]:
        low, high, left, right = self._faces.transpose(1, 0, 2)
        low, high = low - self.overlap * left, high + self.overlap * right
        high[list(self.unused)] = low[list(self.unused)] - 1.0  # without any point
        return low, high

    @cached_property
    def _neighbours(self) -> list[IntArray]:
        """The windows that cover points of a window, itself first."""
        low, high = self._supports
        found = []
        for k in range(self.count):
            both = ((low < high[k]) & (high > low[k])).all(axis=1)
            both[k] = False
            found.append(np.concatenate([[k], np.flatnonzero(both)]))
        return found

    @cached_property
    def _deepest(self) -> int:
        """The number of windows that cover one point, at most."""
        low, high = self._supports
        most = 1
        for k, others in enumerate(self._neighbours):
            # It is reached at a point whose coordinates are those of lower corners.
            axes = [np.unique(np.maximum(low[others, i], low[k, i])) for i in range(low.shape[1])]
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
            inside = (points[:, None] >= low[others]) & (points[:, None] < high[others])
            most = max(most, int(inside.all(axis=2).sum(axis=1).max()))
        return most

    def boxes(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the parts, [K, d] each (local)."""
        lower, sides = self._cells
        low = np.array(self.lower) + lower * self.sides
        return low, low + sides * self.sides

    def to_split(self, wanted: Sequence[int]) -> list[int]:
        """Return these parts and those that would be more than twice as large as a neighbour."""
        _, sides = self._cells
        found = set(map(int, wanted))
        added = list(found)
        while added:
            k = added.pop()
            larger = self._touching[k] & (sides[:, 0] > sides[k, 0])
            more = {int(each) for each in np.flatnonzero(larger)} - found
            found |= more
            added += sorted(more)
        return sorted(found)

    def points_of_windows(self, x: FloatArray) -> Iterator[tuple[int, IntArray]]:
        """Return the points of each window that has some: x: [n, d] (local)."""
        low, high = self._supports
        for window in range(self.count):
            inside = ((x > low[window]) & (x < high[window])).all(axis=1)
            if inside.any():
                yield window, np.flatnonzero(inside)

    def place(self, window: int) -> FloatArray:
        """Return the faces of a window and of its neighbours, and its middle, for `in_window`."""
        others = self._neighbours[window]
        # Windows with fewer neighbours than others have some that are far away.
        faces = np.ones((max(map(len, self._neighbours)), 4, len(self.parts)))
        faces[:, :2] = np.array(self.upper) + 3 * _FAR * self._extent
        faces[: len(others)] = self._faces[others]
        middle = np.zeros((1, *faces.shape[1:]))
        middle[0, :2] = [each[window] for each in self._coordinates]
        return np.concatenate([middle, faces])

    def name(self, window: int) -> str:
        """Return what tells a window from others in a message."""
        low, high = (each[window] for each in self.boxes())
        return f"window {window}, " + " × ".join(
            f"[{a:.6g}, {b:.6g}]" for a, b in zip(low, high, strict=True)
        )

    def pairs(self, x: Propagated) -> Pairs:
        """Return points x: [d, n] with the windows that may cover them (local)."""
        dtype, count = x.value.dtype, self._deepest
        low, high, centres, halves, faces = (
            tf.constant(each, dtype) for each in (*self._supports, *self._coordinates, self._faces)
        )
        points = tf.transpose(x.value)[:, None]
        covered = tf.reduce_all((points > low) & (points < high), axis=2)
        _, numbers = tf.math.top_k(tf.cast(covered, tf.float32), k=count, sorted=False)
        numbers = tf.reshape(tf.transpose(numbers), [-1])  # [S n]
        x = replace(x, value=tf.tile(x.value, [1, count]))
        products = self._of_faces(x, tf.transpose(tf.gather(faces, numbers), [1, 2, 0])[:, :, None])
        total = products.mapped(lambda part: tf.add_n(tf.split(part, count, axis=1)))
        total = total.mapped(lambda part: tf.tile(part, [1, count]))
        centre, half = (tf.transpose(tf.gather(each, numbers)) for each in (centres, halves))
        return Pairs(
            numbers, products * total.activate(RECIPROCAL), x.shifted(-centre).scaled(1 / half)
        )

    def in_window(self, place: Tensor, x: Propagated) -> tuple[Propagated, Propagated]:
        """Return the weight [1, n] and the coordinates [d, n] of a window at points in it.

        place : of the window, in the type of x.
        """
        centre, half = place[0, 0][:, None], place[0, 1][:, None]
        products = self._of_faces(x, tf.transpose(place[1:], [1, 2, 0])[..., None])  # [M, n]
        total = products.mapped(lambda part: tf.reduce_sum(part, axis=0, keepdims=True))
        own = products.mapped(lambda part: part[:1])
        return own * total.activate(RECIPROCAL), x.shifted(-centre).scaled(1 / half)

    def _of_faces(self, x: Propagated, faces: Tensor) -> Propagated:
        """Return P of windows for their faces: [4, d, …], which are broadcast against x: [d, n]."""
        factors = []
        for axis in range(len(self.parts)):
            t, (low, high, left, right) = x.value[axis], tf.unstack(faces[:, axis])
            a, a1, a2 = self._rise(tf.clip_by_value(0.5 + (t - low) / left, 0.0, 1.0))
            b, b1, b2 = self._rise(tf.clip_by_value(0.5 + (high - t) / right, 0.0, 1.0))
            a1, a2, b1, b2 = a1 / left, a2 / left**2, -b1 / right, b2 / right**2
            parts = a * b, a1 * b + a * b1, a2 * b + 2 * a1 * b1 + a * b2
            factors.append(of_one_axis(x, axis, *parts))
        return reduce(mul, factors)
