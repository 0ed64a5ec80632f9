"""The residuals of a term, their derivatives by the parameters of windows, and the band of JᵀJ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.keras.network import Network
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.problem import Problem
from sciml_par.training.loss.jacobian import (
    JacobianOfTerm,
    agree,
    derivatives_by,
    is_right,
    judged,
    moved,
    of_rows,
    signs_like,
)
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.recorded_layers import NotRecordedError
from sciml_par.training.points.feed import Rows

IntArray = npt.NDArray[np.int64]
Tensor = Any


@dataclass(frozen=True, eq=False)
class WindowBand:
    """The order of windows in which those that share points are near to each other."""

    places: IntArray  # in θ, of the parameters of each window that are trained, [K, c]
    position: IntArray  # of each window in the order, [K]
    coupled: npt.NDArray[np.bool_]  # which windows may have residuals in common, [K, K]
    unknowns: int  # how many numbers at the end of θ are unknowns of the problem, q
    slots: int  # how many windows cover a point, at most

    @classmethod
    def of(cls, problem: Problem, network: Network, layout: ParameterLayout) -> WindowBand | None:
        """Return that of a network in windows, or None of another one."""
        model: Any = network.model
        if not hasattr(model, "features_of_windows") or network.others:
            return None
        partition = model.partition
        starts = np.concatenate([[0], np.cumsum(layout.sizes)])
        trained = range(len(layout.shapes) - layout.unknowns)
        parts = [
            np.arange(starts[i], starts[i + 1]).reshape(partition.count, -1)
            for i in trained
            if i not in layout.frozen
        ]
        axes = [cast(int, each.axis) for each in problem.conditions if isinstance(each, Periodic)]
        coupled = partition.coupled(axes)
        middle = np.mean(partition.boxes(), axis=0).T  # [d, K]
        # Of a regular grid, the order along an axis has a band of half the width.
        orders = [np.lexsort(np.roll(middle, axis, axis=0)) for axis in range(len(middle))]
        orders.append(reverse_cuthill_mckee(csr_matrix(coupled), symmetric_mode=True))
        places = np.concatenate(parts, axis=1)
        sizes = layout.size_of_unknowns, len(partition.slots)
        made = [cls(places, np.argsort(order), coupled, *sizes) for order in orders]
        return min(made, key=lambda each: each.width)

    @property
    def size(self) -> int:
        """The number of parameters of all windows, P."""
        return self.places.size

    @property
    def width(self) -> int:
        """The number of diagonals below the main one, b."""
        k, other = np.nonzero(self.coupled)
        steps = np.abs(self.position[k] - self.position[other]).max(initial=0)
        return int(steps + 1) * self.places.shape[1] - 1

    def start(self, window: int) -> int:
        """Return the first row of a window in the matrix."""
        return int(self.position[window]) * self.places.shape[1]

    @property
    def in_order(self) -> IntArray:
        """The places in θ of the rows of the matrix, [P]."""
        return self.places[np.argsort(self.position)].ravel()


@dataclass
class WindowJacobianOfTerm(JacobianOfTerm):
    """Computes √w r and its derivatives by the parameters of the windows at each point.

    A point lies in a few of K windows, so that this takes a small part of the memory of J.
    """

    band: WindowBand | None = None

    def prepare(self, flat: Tensor, rows: Rows) -> None:
        """Check the derivatives, and that `band` has the windows that have residuals in common."""
        given = (of_rows(rows), *rows.arrays)
        # TensorFlow counts the traces of a method over all objects, but not those of partials.
        self._computed = tf.function(partial(self._in_windows), autograph=False)
        try:
            _, slopes, windows, *_ = self._computed(moved(flat, 0.1), *given)
        except NotRecordedError:
            raise InputError(self._refusal("asks the network for more than its output")) from None
        if not is_right(lambda at: judged(self._computed(at, *given)), flat):
            raise InputError(self._refusal("couples points, as an integral does"))
        n = rows.arrays[0].shape[0]
        used = np.any(slopes.numpy() != 0, axis=(0, 1))
        numbers, points = windows.numpy()[used].astype(int), np.flatnonzero(used) % n
        assert self.band is not None
        covers = csr_array((np.ones(len(points)), (numbers, points)))
        if not self.band.coupled[(covers @ covers.T).nonzero()].all():
            raise InputError(self._refusal("couples windows that do not overlap"))

    def _in_windows(self, flat: Tensor, weights: Tensor, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Return r [k n], ∂r [k, c, C], the windows of the columns [C] and ∂r by unknowns [q, k n].

        See `WindowJacobian`. Last comes whether they are right.
        """
        layout, n = self.layout, weights.shape[0]
        tape, layers, r, parts, totals, own, sought = self._with_record(flat, weights, arrays)
        found = [layers.in_windows(total, n, layout) for total in totals]
        slopes, windows = tf.stack([each for each, _ in found]), found[0][1]
        right = layers.separates_rows(r, n)
        # Weights that tf.gradients multiplies by in the residual are not recorded.
        signs = signs_like(r)
        back = tape.gradient(r, own, signs, unconnected_gradients="zero")
        expected = tf.concat(
            [
                tf.reshape(each, [each.shape[0], -1])
                for i, each in enumerate(back)
                if i not in layout.frozen
            ],
            axis=1,
        )
        k, _, columns = slopes.shape
        factors = tf.tile(tf.reshape(signs, [k, 1, n]), [1, 1, columns // n])
        by_column = tf.transpose(tf.reduce_sum(slopes * factors, axis=0))  # [C, c]
        # Σ_i s_i ∂r_i/∂θ by window, [K, c].
        total = tf.math.unsorted_segment_sum(by_column, windows, expected.shape[0])
        right &= agree(slopes, total, expected)
        by_unknowns = tf.zeros([0, r.shape[0]], r.dtype)
        if sought:
            by_unknowns = tf.concat([derivatives_by(tape, part, sought) for part in parts], axis=1)
        return r, slopes, tf.cast(windows, r.dtype), by_unknowns, right

    _unprepared = _in_windows

    def _refusal(self, why: str) -> str:
        return (
            f"LevenbergMarquardt: solver='windows' needs residuals at single points; the term "
            f"{self.term.name!r} {why}. Take solver='normal equations'."
        )
