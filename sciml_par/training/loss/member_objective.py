"""The loss of one member, its gradient and its Jacobian, on the points of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.problems.terms.term import Term
from sciml_par.training.loss.jacobian import FieldOf, JacobianOfTerm, weighted
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.points.feed import Batch, Rows

Tensor = Any


class MemberObjective:
    """Σ_t Σ_i w_ti |r_t(x_i; θ)|² of one member over this rank's points, from a row of θ.

    Nothing here is collective; see `StackedObjective` for the parameters. What takes a row of θ
    and a vector has them in one tensor, θ first, as vectorization wants.
    """

    def __init__(
        self,
        field: FieldOf,
        terms: Sequence[Term],
        *,
        layout: ParameterLayout,
        jacobians: Sequence[JacobianOfTerm],
    ) -> None:
        self._field, self._terms, self.layout = field, tuple(terms), layout
        self._jacobians = tuple(jacobians)

    def values(self, flat: Tensor, batch: Batch) -> Tensor:
        """Return the terms of the loss, with their weights: [p] -> [T]."""
        return self._terms_here(self.layout.unflatten(flat), batch, flat.dtype)

    def gradient(self, flat: Tensor, batch: Batch) -> Tensor:
        """Return ∇L followed by the terms of the loss: [p] -> [p + T]."""
        parameters = self.layout.unflatten(flat)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            terms = self._terms_here(parameters, batch, flat.dtype)
            loss = tf.reduce_sum(terms)
        gradients = tape.gradient(loss, parameters, unconnected_gradients="zero")
        frozen = self.layout.frozen
        gradients = [tf.zeros_like(g) if i in frozen else g for i, g in enumerate(gradients)]
        return tf.concat([self.layout.flatten(gradients), terms], axis=0)

    def squares(self, flat: Tensor, batch: Batch) -> Tensor:
        """Return Σ_t w_t |r_t|² at each point, over the first terms: [p] -> [n]."""
        u = self._field(self.layout.unflatten(flat))
        if not _has_points(batch[0]):
            return tf.zeros([0], flat.dtype)
        return tf.add_n(
            rows.weights * tf.reduce_sum(tf.square(term.residual(u, *rows.arrays)), axis=1)
            for term, rows in zip(self._terms, batch, strict=False)
        )

    def gradients_of_terms(self, flat: Tensor, batch: Batch) -> Tensor:
        """Return the gradient of each term: [p] -> [T, p]."""
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
            tape.watch(flat)
            terms = self._terms_here(self.layout.unflatten(flat), batch, flat.dtype)
            values = tf.unstack(terms)
        return tf.stack([tape.gradient(v, flat, unconnected_gradients="zero") for v in values])

    def residuals(self, flat: Tensor, batch: Batch) -> list[Tensor]:
        """Return √w r of each term: [p] -> [K_t]."""
        if not self._jacobians:
            return self._followed(flat, batch)
        return [
            jacobian.residuals(flat, rows) if _has_points(rows) else tf.zeros([0], flat.dtype)
            for jacobian, rows in zip(self._jacobians, batch, strict=True)
        ]

    def prepare_jacobian(self, flat: Tensor, batch: Batch) -> None:
        """See `JacobianOfTerm.prepare`."""
        for jacobian, rows in zip(self._jacobians, batch, strict=True):
            if _has_points(rows):
                jacobian.prepare(flat, rows)

    def jacobian(self, flat: Tensor, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        """Return √w r of each term, [K_t], and its derivatives, [p, K_t], or of fewer rows."""
        layout = self._jacobians[0].layout if self._jacobians else self.layout
        size = sum(layout.sizes[i] for i in layout.rows)
        none = tf.zeros([0], flat.dtype), tf.zeros([size, 0], flat.dtype)
        found = [
            jacobian(flat, rows) if _has_points(rows) else none
            for jacobian, rows in zip(self._jacobians, batch, strict=True)
        ]
        return [r for r, _ in found], [slopes for _, slopes in found]

    def window_jacobian(self, flat: Tensor, batch: Batch) -> tuple[list[Tensor], ...]:
        """Return the parts of a `WindowJacobian`; derivatives of terms with points on this rank."""
        pairs = list(zip(self._jacobians, batch, strict=True))
        some = [jacobian(flat, rows) for jacobian, rows in pairs if _has_points(rows)]
        here, none = iter(some), tf.zeros([0], flat.dtype)
        residuals = [next(here)[0] if _has_points(rows) else none for _, rows in pairs]
        return residuals, *([each[part] for each in some] for part in range(1, 4))

    def transposed_times(self, both: Tensor, batch: Batch) -> Tensor:
        """Return Jᵀ v: (θ, v) [p + K] -> [p]."""
        flat, v = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(flat)
            r = tf.concat(self._followed(flat, batch), axis=0)
        return tape.gradient(r, flat, v, unconnected_gradients="zero")

    def jacobian_times(self, both: Tensor, batch: Batch) -> list[Tensor]:
        """Return J d of each term: (θ, d) [2 p] -> [K_t]."""
        flat, direction = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(flat)
            parts = self._followed(flat, batch)
            r = tf.concat(parts, axis=0)
        along = _along(tape, r, flat, direction)
        return tf.split(along, [part.shape[0] for part in parts])

    def normal_times(self, both: Tensor, batch: Batch) -> Tensor:
        """Return JᵀJ d: (θ, d) [2 p] -> [p]."""
        flat, direction = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
            tape.watch(flat)
            r = tf.concat(self._followed(flat, batch), axis=0)
        along = _along(tape, r, flat, direction)
        return tape.gradient(r, flat, along, unconnected_gradients="zero")

    def components(self, term: Term, rows: Rows, flags: Any) -> int:
        """Return how many residuals a term has at a point, also where this rank has none."""
        shapes = [
            a.shape[int(flag) :].as_list() for a, flag in zip(rows.arrays, flags[1], strict=True)
        ]
        dtype = rows.arrays[0].dtype
        u = self._field(self.layout.unflatten(tf.zeros([self.layout.size], dtype)))
        specs = [tf.TensorSpec([max(n, 1), *rest], dtype) for n, *rest in shapes]
        return term.components(u, *specs)

    def _followed(self, flat: Tensor, batch: Batch) -> list[Tensor]:
        """Return √w r of each term, by operations that tapes around them follow one by one."""
        u = self._field(self.layout.unflatten(flat))
        return [
            weighted(term.residual(u, *rows.arrays), rows.weights)
            if _has_points(rows)
            else tf.zeros([0], flat.dtype)
            for term, rows in zip(self._terms, batch, strict=True)
        ]

    def _terms_here(self, parameters: Sequence[Tensor], batch: Batch, dtype: Any) -> Tensor:
        u = self._field(parameters)
        values = []
        for term, rows in zip(self._terms, batch, strict=True):
            # A term without points here needs no operations here; other ranks have its points.
            value = tf.zeros([], dtype)
            if _has_points(rows):
                squares = tf.square(term.residual(u, *rows.arrays))
                if rows.weights.shape.rank == 0:
                    value = rows.weights * tf.reduce_sum(squares)
                else:
                    value = tf.reduce_sum(rows.weights[:, None] * squares)
            values.append(value)
        return tf.stack(values)


def _along(tape: Any, r: Tensor, flat: Tensor, direction: Tensor) -> Tensor:
    """Return J d, as the derivative along d of Jᵀ w by w, in which it is linear: [K].

    A ForwardAccumulator would be one pass instead of two, but around those of a residual it is
    wrong in silence.
    """
    w = tf.zeros_like(r)
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(w)
        back = tape.gradient(r, flat, w, unconnected_gradients="zero")
    return outer.gradient(back, w, direction, unconnected_gradients="zero")


def _has_points(rows: Rows) -> bool:
    return rows.arrays[0].shape[0] != 0
