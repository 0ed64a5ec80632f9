"""A smooth partition of unity over overlapping windows of a box."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.cells import of_one_axis
from sciml_par.networks.propagation.propagation import Propagated, joined

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Tensor = Any


class Pairs(NamedTuple):
    """Points together with the windows that may cover them, slot by slot.

    Attributes
    ----------
    numbers : of the windows, [S n], S slots of n points one after the other.
    weight : of the windows at the points, [1, S n]; zero in windows that do not cover the point.
    inside : the points in the scaled coordinates of the windows, [d, S n].
    """

    numbers: Tensor
    weight: Propagated
    inside: Propagated


@dataclass(frozen=True)
class Partition:
    """Σ_k w_k(x) = 1 with the window w_k around the part k of a box.

    Parts have the sides h and the windows the sides (1 + 2 overlap) h. Along each axis, with v the
    distance from the centre of a part to the next one in units of h, and r = ½ + overlap,

        w_{k+1} = b(1 − v) / (b(v) + b(1 − v)),  w_k = 1 − w_{k+1},  b(v) = (1 − (v/r)²)⁴ for v < r

    and zero otherwise, three times continuously differentiable; in d dimensions, w is the product.
    Beyond the box, the outermost windows go on with the weight one.

    Attributes
    ----------
    lower, upper : corners of the box, [d].
    parts : along each axis, [d].
    overlap : by which a window reaches into the next part, in units of h, in (0, ½].
    splits, unused, enriched : of a `RefinedPartition`.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    parts: tuple[int, ...]
    overlap: float
    splits: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()
    enriched: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of windows K."""
        return int(np.prod(self.parts))

    @property
    def sides(self) -> FloatArray:
        """h, [d]."""
        return (np.array(self.upper) - np.array(self.lower)) / np.array(self.parts)

    @property
    def slots(self) -> list[tuple[int, ...]]:
        """Which of two neighbours is meant along each axis: one or two for each axis, S in all."""
        return list(itertools.product(*(range(min(each, 2)) for each in self.parts)))

    @property
    def strides(self) -> tuple[int, ...]:
        """By which the number of a window grows along each axis, [d]."""
        return tuple(int(np.prod(self.parts[i + 1 :])) for i in range(len(self.parts)))

    def boxes(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the parts, in the order of their numbers: [K, d] each.

        Local.
        """
        places = np.stack(np.unravel_index(np.arange(self.count), self.parts), axis=1)
        low = np.array(self.lower)
        return low + self.sides * places, low + self.sides * (places + 1)

    @cached_property
    def richness(self) -> IntArray:
        """How many times as many features as others a window has, [K]."""
        return 2 ** np.bincount(np.array(self.enriched, int), minlength=self.count)

    def half_sides(self) -> FloatArray:
        """Return half of the sides of a window, [d] (local)."""
        return self.sides * (0.5 + self.overlap)

    def supports(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the windows, [K, d] each (local)."""
        low, high = self.boxes()
        return low - self.overlap * self.sides, high + self.overlap * self.sides

    def coupled(self, periodic: Iterable[int] = ()) -> npt.NDArray[np.bool_]:
        """Return which windows cover a point in common, [K, K] (local).

        periodic : axes along which opposite faces of the box count as the same points.
        """
        low, high = self.supports()
        extent, found = np.array(self.upper) - np.array(self.lower), np.eye(self.count, dtype=bool)
        for shift in itertools.product((-1, 0, 1), repeat=len(extent)):
            if all(s == 0 or axis in periodic for axis, s in enumerate(shift)):
                moved = np.array(shift) * extent
                met = (low[:, None] < high + moved) & (high[:, None] > low + moved)
                found |= met.all(axis=2)
        return found

    def to_split(self, wanted: Sequence[int]) -> list[int]:
        """Return these parts, and those that would be more than twice as large as a neighbour."""
        return sorted({int(each) for each in wanted})

    def pairs(self, x: Propagated) -> Pairs:
        """Return points x: [d, n] with the windows that may cover them (local)."""
        slots, along = self.slots, [self._along(x, axis) for axis in range(len(self.parts))]
        # The numbers of the windows along each axis, [S n].
        places = [
            tf.concat([first + slot[axis] for slot in slots], axis=0)
            for axis, (first, _) in enumerate(along)
        ]
        weights = (joined([w[slot[k]] for slot in slots], 1) for k, (_, w) in enumerate(along))
        numbers = sum(map(mul, self.strides, places))
        x = replace(x, value=tf.tile(x.value, [1, len(slots)]))
        return Pairs(
            tf.cast(numbers, tf.int32), reduce(mul, weights), self._inside(x, tf.stack(places))
        )

    def _inside(self, x: Propagated, place: Tensor) -> Propagated:
        """Return points in the coordinates of windows with these numbers along each axis."""
        lower, sides, half = (
            tf.constant(each, x.value.dtype)[:, None]
            for each in (self.lower, self.sides, self.half_sides())
        )
        return x.shifted(-(lower + (place + 0.5) * sides)).scaled(1 / half)

    def _along(self, x: Propagated, axis: int) -> tuple[Tensor, list[Propagated]]:
        """Return the first of two windows along an axis, [n], and w of both."""
        h, parts = float(self.sides[axis]), self.parts[axis]
        s = (x.value[axis] - self.lower[axis]) / h
        if parts == 1:
            return tf.zeros_like(s), [of_one_axis(x, axis, tf.ones_like(s)[None], None, None)]
        first = tf.stop_gradient(tf.clip_by_value(tf.floor(s - 0.5), 0.0, parts - 2.0))
        w, w1, w2 = self._rise(tf.clip_by_value(s - first - 0.5, 0.0, 1.0))
        rise = of_one_axis(x, axis, w[None], w1[None] / h, w2[None] / h**2)
        return first, [rise.scaled(-1.0).shifted(1.0), rise]

    def _rise(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return w_{k+1} at v in [0, 1], with two derivatives by v."""
        reach = 0.5 + self.overlap
        a, a1, a2 = _bump(v / reach)
        b, b1, b2 = _bump((1 - v) / reach)
        total, slope, curvature = a + b, (a1 - b1) / reach, (a2 + b2) / reach**2
        w = b / total
        w1 = (-b1 / reach - w * slope) / total
        w2 = (b2 / reach**2 - 2 * w1 * slope - w * curvature) / total
        return w, w1, w2

    def points_of_windows(self, x: FloatArray) -> Iterator[tuple[int, IntArray]]:
        """Return the points of each window that has some: x: [n, d] (local)."""
        reach, along = 0.5 + self.overlap, []
        for axis, parts in enumerate(self.parts):
            s = (x[:, axis] - self.lower[axis]) / self.sides[axis] - 0.5
            k = np.arange(parts)[:, None]
            along.append(((s > k - reach) | (k == 0)) & ((s < k + reach) | (k == parts - 1)))
        for window, place in enumerate(np.ndindex(self.parts)):
            inside = np.ones(len(x), bool)
            for masks, number in zip(along, place, strict=True):
                inside &= masks[number]
            if inside.any():
                yield window, np.flatnonzero(inside)

    def place(self, window: int) -> FloatArray:
        """Return the number of a window along each axis, for `in_window`."""
        return np.array(np.unravel_index(window, self.parts), np.float64)

    def name(self, window: int) -> str:
        """Return what tells a window from others in a message."""
        return f"window {tuple(map(int, self.place(window)))} of {self.parts}"

    def in_window(self, place: Tensor, x: Propagated) -> tuple[Propagated, Propagated]:
        """Return the weight [1, n] and the coordinates [d, n] of a window at points in it.

        place : of the window, in the type of x.
        """
        factors = []
        for axis, parts in enumerate(self.parts):
            h = float(self.sides[axis])
            v = (x.value[axis] - self.lower[axis]) / h - 0.5 - place[axis]
            up = tf.where(place[axis] < parts - 1, tf.clip_by_value(v, 0.0, 1.0), tf.zeros_like(v))
            down = tf.where(place[axis] > 0, tf.clip_by_value(-v, 0.0, 1.0), tf.zeros_like(v))
            # At most one of them is not zero, and the other is then constant.
            (a, a1, a2), (b, b1, b2) = self._rise(up), self._rise(down)
            both = [1 - a - b, (b1 - a1) / h, -(a2 + b2) / h**2]
            factors.append(of_one_axis(x, axis, *(each[None] for each in both)))
        return reduce(mul, factors), self._inside(x, place[:, None])


def _bump(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (1 − t²)⁴ where it is inside of [−1, 1], zero elsewhere, and two derivatives."""
    q = tf.nn.relu(1 - t * t)
    cube = q * q * q
    return q * cube, -8 * t * cube, -8 * cube + 48 * t * t * q * q
