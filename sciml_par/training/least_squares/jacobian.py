"""The residuals of a term of the loss and their derivatives by all parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.network import Network
from sciml_par.problems.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.term import Term
from sciml_par.problems.unknowns import values_of
from sciml_par.training.least_squares.by_unknowns import derivatives_by
from sciml_par.training.least_squares.recorded_layers import NotRecordedError, RecordedLayers
from sciml_par.training.parameter_layout import ParameterLayout
from sciml_par.training.points.feed import Rows

Tensor = Any
FieldOf = Callable[[Sequence[Tensor]], Field]


def weighted(residual: Tensor, weights: Tensor) -> Tensor:
    """√w r of residuals [n, k] as one vector, a component after the other: [k n] (local)."""
    roots = tf.sqrt(weights)
    roots = roots if weights.shape.rank == 0 else roots[:, None]
    return tf.reshape(tf.transpose(roots * residual), [-1])


@dataclass
class JacobianOfTerm:
    """Computes √w r and its derivatives for one member.

    `prepare` is to be called before, outside of any graph.

    Attributes
    ----------
    problem, network, term : what is differentiated.
    layout : of the parameters.
    field : makes u from the parameters.
    """

    problem: Problem
    network: Network
    term: Term
    layout: ParameterLayout
    field: FieldOf
    _independent_rows: bool | None = None

    def prepare(self, dtype: Any) -> None:
        """Find out whether residual i depends on point i only, by trying (local)."""
        if self._independent_rows is None:
            self._independent_rows = self._rows_are_independent(dtype)

    def __call__(self, flat: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """θ: [p] -> √w r: [k n], and its derivatives, transposed: [p, k n] (local)."""
        assert self._independent_rows is not None
        if not self._independent_rows:
            return self._row_by_row(flat, rows)
        if all(each.chain is not None for each in (self.network, *self.network.others)):
            try:
                return self._recorded(flat, rows)
            except NotRecordedError:
                pass
        return self._point_by_point(flat, rows)

    def _recorded(self, flat: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """By one reverse pass for each component of the residual."""
        parameters = self.layout.unflatten(flat)
        self.term.plan(self.field(parameters), *rows.arrays)
        count = len(parameters) - self.layout.unknowns
        weights, sought = parameters[:count], parameters[count:]
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            layers = RecordedLayers(tape)
            tape.watch(sought)
            unknowns = values_of(self.problem.unknowns, sought) if sought else None
            u = layers.field(self.problem, self.network, weights, unknowns)
            r = weighted(self.term.residual(u, *rows.arrays), rows.weights)
            parts = tf.split(r, _components(r, rows))
            totals = [tf.reduce_sum(part) for part in parts]
        found = [
            layers.derivatives(part, total, self.layout)
            for part, total in zip(parts, totals, strict=True)
        ]
        by_all = tf.concat(found, axis=1)
        if not sought:
            return r, by_all
        by_unknowns = tf.concat([derivatives_by(tape, part, sought) for part in parts], axis=1)
        return r, tf.concat([by_all[: self.layout.size_of_network], by_unknowns], axis=0)

    def _point_by_point(self, flat: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """By a reverse pass for each point, all of which are one vectorized computation."""
        n = rows.arrays[0].shape[0]
        weights = rows.weights + tf.zeros([n], flat.dtype)

        def of_point(given: Any) -> tuple[Tensor, Tensor]:
            weight, arrays = given
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(flat)
                u = self.field(self.layout.unflatten(flat))
                r = weighted(self.term.residual(u, *(a[None] for a in arrays)), weight)
                parts = tf.unstack(r)
            return r, tf.stack([_gradient(tape, part, flat) for part in parts])

        r, slopes = tf.vectorized_map(of_point, (weights, tuple(rows.arrays)))
        return (
            tf.reshape(tf.transpose(r), [-1]),
            tf.reshape(tf.transpose(slopes, [2, 1, 0]), [self.layout.size, -1]),
        )

    def _row_by_row(self, flat: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """By a reverse pass through all points for each row."""
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(flat)
            u = self.field(self.layout.unflatten(flat))
            r = weighted(self.term.residual(u, *rows.arrays), rows.weights)
        found = tape.jacobian(r, flat, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return r, tf.transpose(found)

    def couples_points(self, dtype: Any) -> bool:
        """Whether residuals at some points are others without the rest of these points (local).

        What the residual raises goes through: there are some that can be computed on the training
        points alone, such as with measured values.
        """
        n, residual = self._tried(dtype)
        parts = [part for part in (slice(0, n // 2), slice(n // 2, n)) if part.stop > part.start]
        return n > 0 and _differ(
            residual(slice(n)), np.concatenate([residual(part) for part in parts])
        )

    def mixes_points(self, dtype: Any) -> bool:
        """Whether residuals at some points are others once the rest of these points move (local).

        Their number and places stay, so that rounding does too, and every bit is compared.
        """
        n, residual = self._tried(dtype)
        rows = np.arange(n)
        whole = residual(rows)
        if n < 2 or not np.array_equal(whole, residual(rows), equal_nan=True):
            return False
        for first in (0, 1):
            kept = rows[first::2]
            moved = residual(np.where(rows % 2 == first, rows, kept[(rows // 2) % len(kept)]))
            if not np.array_equal(whole[kept], moved[kept], equal_nan=True):
                return True
        return False

    def draws_random_numbers(self, dtype: Any) -> bool:
        """Whether residuals are others when they are computed again (local).

        What the residual raises goes through.
        """
        n, residual = self._tried(dtype)
        return n > 0 and _differ(residual(slice(n)), residual(slice(n)))

    def _tried(self, dtype: Any) -> tuple[int, Callable[[Any], Any]]:
        """The number of a few points, and the residuals at some of them."""
        arrays = self._some_points()
        if arrays is None:
            return 0, lambda _part: np.zeros([0, 1])
        given = [tf.constant(array, dtype) for array in arrays]
        flat = np.random.default_rng(0).normal(size=self.layout.size)
        u = self.field(self.layout.unflatten(tf.constant(flat, dtype)))
        n = len(arrays[0])

        def residual(part: Any) -> Any:
            rows = np.arange(n)[part]
            return self.term.residual(u, *(tf.gather(a, rows) for a in given)).numpy()

        return n, residual

    def _rows_are_independent(self, dtype: Any) -> bool:
        try:
            return not self.couples_points(dtype)
        except Exception:  # TensorFlow and the user's own function raise all kinds
            return False

    def _some_points(self) -> Sequence[Any] | None:
        """A few points of the term; None if even many tried have none of them."""
        for tried in (6, 64, 1024, 16384):
            try:
                return [array[:6] for array in self.term.points(tried)]
            except InputError:  # a grid of so few has none, or none where the condition holds
                continue
        return None


def _differ(a: Any, b: Any) -> bool:
    """Whether two arrays differ by more than rounding."""
    scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    close = 1e3 * np.finfo(a.dtype).eps * scale
    return not np.allclose(a, b, rtol=0, atol=close, equal_nan=True)


def _components(r: Tensor, rows: Rows) -> int:
    return int(r.shape[0] // rows.arrays[0].shape[0])


def _gradient(tape: Any, value: Tensor, flat: Tensor) -> Tensor:
    return tape.gradient(value, flat, unconnected_gradients=tf.UnconnectedGradients.ZERO)
