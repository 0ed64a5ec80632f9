"""A smooth partition of unity over cells between breaks of each axis, which telescopes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import Activation
from sciml_par.networks.propagation.propagation import Part, Propagated, joined

FloatArray = npt.NDArray[np.float64]
Tensor = Any

_NOWHERE = 1e30
"""The place of a break that a slab does not have."""

RECIPROCAL = Activation("reciprocal", lambda z: 1 / z, lambda z: (1 / z, -1 / z**2, 2 / z**3))


@dataclass(frozen=True)
class Cells:
    """Windows w_k = S_k − S_{k+1} with smooth steps S_k around the breaks of an axis.

    S_k rises from 0 to 1, three times continuously differentiable, within `overlap` times the
    shorter of the two neighbouring cells on each side of the break; S_0 = 1 and S_K = 0. So
    Σ_k w_k = 1 without a division, and the cells may differ in size. In d dimensions w is the
    product over the axes. Where windows are dropped, the others are divided by their sum.

    Attributes
    ----------
    breaks : of each axis, increasing, the sides of the box included.
    overlap : dimensionless, at most ½.
    dropped : numbers of the cells (the last axis varies fastest) without a window.
    """

    breaks: tuple[tuple[float, ...], ...]
    overlap: float = 0.2
    dropped: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis, [d]."""
        return tuple(len(each) - 1 for each in self.breaks)

    @cached_property
    def kept(self) -> npt.NDArray[np.int64]:
        """The numbers of the cells with a window, [K]."""
        return np.setdiff1d(np.arange(int(np.prod(self.shape))), self.dropped)

    @cached_property
    def reach(self) -> list[FloatArray]:
        """The half width of the step at each break, 0 at both sides of the box: [d][B + 1]."""
        sides = [np.diff(each) for each in self.breaks]
        inner = [self.overlap * np.minimum(h[:-1], h[1:]) for h in sides]
        return [np.concatenate([[0.0], each, [0.0]]) for each in inner]

    def corners(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the cells with a window, [K, d] each (local)."""
        return self._at_places([np.asarray(each) for each in self.breaks])

    def supports(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the windows, [K, d] each (local)."""
        (low, high), (before, behind) = self.corners(), self._at_places(self.reach)
        return low - before, high + behind

    def _at_places(self, values: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return values at the first and at the second break of each cell, [K, d] each."""
        places = np.unravel_index(self.kept, self.shape)
        pairs = list(zip(values, places, strict=True))
        return (
            np.stack([v[k] for v, k in pairs], axis=1),
            np.stack([v[k + 1] for v, k in pairs], axis=1),
        )

    def at(self, x: Propagated) -> tuple[Tensor, Propagated, list[Tensor], FloatArray]:
        """Return what covers the points x: [d, n], in S slots of n points (local).

        S is two to the power of the axes with several cells. Slots that do not cover a point have
        the weight zero there.

        Returns
        -------
        numbers : of the windows, [S n].
        weight : w, [1, S n].
        inside : coordinates in the window, from −1 to 1 across its support, [S n] for each axis.
        scale : [K, d], their derivatives by x.
        """
        return _covering((self,), self, x)

    @property
    def slots(self) -> int:
        """S of `at`."""
        return int(2 ** sum(each > 1 for each in self.shape))


@dataclass(frozen=True)
class Slabs:
    """Cells of one slab of time after another, without an overlap in between.

    At a time between two slabs the earlier one answers, and the first and the last one outside.

    Attributes
    ----------
    parts : the cells of each slab, of which there is one along the last axis.
    """

    parts: tuple[Cells, ...]

    @cached_property
    def kept(self) -> npt.NDArray[np.int64]:
        """The numbers of the windows, [K]."""
        return np.arange(sum(len(part.kept) for part in self.parts))

    @property
    def times(self) -> list[float]:
        """At which a slab ends and another one begins."""
        return [part.breaks[-1][0] for part in self.parts[1:]]

    @property
    def slots(self) -> int:
        """S of `Cells.at`."""
        axes = zip(*(part.shape for part in self.parts), strict=True)
        return int(2 ** sum(max(counts) > 1 for counts in axes))

    def supports(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper corners of the windows, [K, d] each (local)."""
        low, high = zip(*(part.supports() for part in self.parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

    def at(self, x: Propagated) -> tuple[Tensor, Propagated, list[Tensor], FloatArray]:
        """See `Cells` (local)."""
        return _covering(self.parts, self, x)


def _covering(
    parts: Sequence[Cells], cells: Cells | Slabs, x: Propagated
) -> tuple[Tensor, Propagated, list[Tensor], FloatArray]:
    """Return what `Cells.at` does, for the cells of the slab of each point."""
    shapes, dtype = np.array([part.shape for part in parts]), x.value.dtype
    times = tf.constant([part.breaks[-1][0] for part in parts[1:]], dtype)
    slab = tf.searchsorted(times, tf.stop_gradient(x.value[-1]), side="left")
    axes = [_along(parts, slab, x, axis) for axis in range(len(shapes[0]))]
    slots = list(itertools.product(*(range(len(steps)) for _, steps in axes)))
    # The numbers of windows, of all cells of one slab after another; dropped cells have none.
    sizes = shapes.prod(axis=1)
    index, there, first = np.zeros(sizes.sum(), np.int32), np.zeros(sizes.sum()), 0
    for part, begin in zip(parts, np.cumsum([0, *sizes]), strict=False):
        index[begin + part.kept] = first + np.arange(len(part.kept))
        there[begin + part.kept] = 1.0
        first += len(part.kept)
    count = [tf.gather(tf.constant(each, tf.int32), slab) for each in shapes.T]
    rows = []
    for slot in slots:
        number = tf.zeros_like(slab)
        for axis, (place, _) in enumerate(axes):
            number = number * count[axis] + place + slot[axis]
        rows.append(number + tf.gather(tf.constant(np.cumsum([0, *sizes])[:-1], tf.int32), slab))
    # A slot that covers nothing may lie behind the last cell.
    cell_numbers = tf.minimum(tf.concat(rows, axis=0), len(index) - 1)
    weight = reduce(
        mul, (joined([steps[e[axis]] for e in slots], 1) for axis, (_, steps) in enumerate(axes))
    )
    numbers = tf.gather(tf.constant(index), cell_numbers)
    if not there.all():
        mask = tf.gather(tf.constant(there, dtype), cell_numbers)[None]
        weight = weight.mapped(lambda part: part * mask)
        total = weight.mapped(lambda part: sum(tf.split(part, len(slots), axis=1)))
        # In the middle of a dropped cell there is nothing to divide by, and u = 0.
        covered = tf.where(total.value > 0, total.value, tf.ones_like(total.value))
        inverse = replace(total, value=covered).activate(RECIPROCAL)
        weight *= inverse.mapped(lambda part: tf.tile(part, [1, len(slots)]))
    low, high = cells.supports()
    scale, inside = 2 / (high - low), []
    for axis in range(len(axes)):
        s = tf.tile(x.value[axis], [len(slots)])
        centre = tf.constant((low + high)[:, axis] / 2, dtype)
        factor = tf.gather(tf.constant(scale[:, axis], dtype), numbers)
        inside.append((s - tf.gather(centre, numbers)) * factor)
    return numbers, weight, inside, scale


def _along(
    parts: Sequence[Cells], slab: Tensor, x: Propagated, axis: int
) -> tuple[Tensor, list[Propagated]]:
    """Return the first of the windows that may cover a point, [n], and w of it and the next."""
    s, counts = x.value[axis], np.array([part.shape[axis] for part in parts])
    dtype, most = s.dtype, int(counts.max())
    if most == 1:
        return tf.zeros_like(s, tf.int32), [of_one_axis(x, axis, tf.ones_like(s)[None], None, None)]

    def table(values: Sequence[FloatArray], fill: float, width: int) -> Any:
        padded = [np.append(v, np.full(width - len(v), fill)) for v in values]
        return tf.constant(np.array(padded), dtype)

    breaks = [np.asarray(part.breaks[axis]) for part in parts]
    reach = [part.reach[axis] for part in parts]
    inner = table([b[1:-1] for b in breaks], _NOWHERE, most - 1)
    widths = table([r[1:-1] for r in reach], 1.0, most - 1)
    ends = table([(b + r)[:-1] for b, r in zip(breaks, reach, strict=True)], 0.0, most)
    beyond = tf.stop_gradient(s)[:, None] >= tf.gather(inner, slab)
    cell = tf.reduce_sum(tf.cast(beyond, tf.int32), axis=1)
    before = s < tf.gather(tf.reshape(ends, [-1]), slab * most + cell)
    first = cell - tf.cast((cell > 0) & before, tf.int32)
    first = tf.minimum(first, tf.gather(tf.constant(np.maximum(counts - 2, 0), tf.int32), slab))
    of_break = slab * (most - 1) + first
    width = tf.gather(tf.reshape(widths, [-1]), of_break)
    centre = tf.gather(tf.reshape(inner, [-1]), of_break)
    value, slope, curvature = _step((s - centre) / width)
    parts_of_step = value, slope / width, curvature / width**2
    rise = of_one_axis(x, axis, *(part[None] for part in parts_of_step))
    return first, [rise.scaled(-1.0).shifted(1.0), rise]


def of_one_axis(
    x: Propagated, axis: int, value: Tensor, slope: Part, curvature: Part
) -> Propagated:
    """Return a function of one coordinate by its values and derivatives, [w, n] each (local)."""

    assert x.carried.order <= 2, "windows are three times continuously differentiable"
    factors = [dict(operator).get((axis, axis)) for operator in x.carried.operators]
    operators = [None if c is None or curvature is None else c * curvature for c in factors]
    first = tuple(slope if i == axis else None for i in range(len(x.first)))
    return Propagated(value, first, tuple(operators), x.carried)


def _step(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the step (1 + t)⁴ (…) / … from 0 at −1 to 1 at 1, and two derivatives: [n]."""
    s = tf.clip_by_value((t + 1) / 2, 0.0, 1.0)
    r = s * (1 - s)
    value = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)
    return value, 70 * r**3, 105 * r**2 * (1 - 2 * s)
