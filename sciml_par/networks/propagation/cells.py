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
        axes = [self._along(x, axis) for axis in range(len(self.breaks))]
        slots = list(itertools.product(*(range(len(steps)) for _, steps in axes)))
        index, cell_numbers = np.zeros(int(np.prod(self.shape)), np.int32), None
        index[self.kept] = np.arange(len(self.kept))
        for axis, (first, _) in enumerate(axes):
            place = tf.concat([first + slot[axis] for slot in slots], axis=0)
            ahead = 0 if cell_numbers is None else cell_numbers * self.shape[axis]
            cell_numbers = ahead + place
        weight = reduce(
            mul,
            (joined([steps[e[axis]] for e in slots], 1) for axis, (_, steps) in enumerate(axes)),
        )
        numbers = tf.gather(tf.constant(index), cell_numbers)
        if self.dropped:
            mask = np.zeros(len(index))
            mask[self.kept] = 1.0
            there = tf.gather(tf.constant(mask, x.value.dtype), cell_numbers)[None]
            weight = weight.mapped(lambda part: part * there)
            total = weight.mapped(lambda part: sum(tf.split(part, len(slots), axis=1)))
            # In the middle of a dropped cell there is nothing to divide by, and u = 0.
            covered = tf.where(total.value > 0, total.value, tf.ones_like(total.value))
            inverse = replace(total, value=covered).activate(RECIPROCAL)
            weight *= inverse.mapped(lambda part: tf.tile(part, [1, len(slots)]))
        low, high = self.supports()
        scale = 2 / (high - low)
        dtype, inside = x.value.dtype, []
        for axis in range(len(axes)):
            s = tf.tile(x.value[axis], [len(slots)])
            centre = tf.constant((low + high)[:, axis] / 2, dtype)
            factor = tf.gather(tf.constant(scale[:, axis], dtype), numbers)
            inside.append((s - tf.gather(centre, numbers)) * factor)
        return numbers, weight, inside, scale

    def _along(self, x: Propagated, axis: int) -> tuple[Tensor, list[Propagated]]:
        """Return the first of the windows that may cover a point, [n], and w of it and the next."""
        s, b, reach = x.value[axis], np.asarray(self.breaks[axis]), self.reach[axis]
        dtype = s.dtype
        if len(b) == 2:
            return tf.zeros_like(s, tf.int32), [
                of_one_axis(x, axis, tf.ones_like(s)[None], None, None)
            ]
        inner = tf.constant(b[1:-1], dtype)
        cell = tf.searchsorted(inner, tf.stop_gradient(s), side="right")
        ends = tf.gather(tf.constant(b + reach, dtype), cell)
        first = cell - tf.cast((cell > 0) & (s < ends), cell.dtype)
        first = tf.minimum(first, len(b) - 3)
        width = tf.gather(tf.constant(reach[1:-1], dtype), first)
        value, slope, curvature = _step((s - tf.gather(inner, first)) / width)
        parts = value, slope / width, curvature / width**2
        rise = of_one_axis(x, axis, *(part[None] for part in parts))
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
