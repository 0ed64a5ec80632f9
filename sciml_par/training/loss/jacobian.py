"""The residuals of a term of the loss and their derivatives by all parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.assembly.asked import trace
from sciml_par.networks.keras.network import Network
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknowns import values_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.recorded_layers import NotRecordedError, RecordedLayers
from sciml_par.training.points.feed import Rows

Tensor = Any
FieldOf = Callable[[Sequence[Tensor]], Field]
Tried = Callable[[Tensor], tuple[Tensor, Tensor]]
_AT_ONCE = 1 << 16
"""Points times rows of one block of reverse passes through all points, which hold both."""
_FEW = 8
_MANY = 4


def weighted(residual: Tensor, weights: Tensor) -> Tensor:
    """Return √w r of residuals [n, k] as one vector, a component after the other: [k n]."""
    roots = tf.sqrt(weights)
    roots = roots if weights.shape.rank == 0 else roots[:, None]
    return tf.reshape(tf.transpose(roots * residual), [-1])


def moved(parameters: Tensor, by: float = 1.0) -> Tensor:
    """Return moved parameters: at initial ones, derivatives may vanish by chance."""
    change = np.random.default_rng(0).normal(scale=by, size=parameters.shape)
    return parameters + tf.constant(change, parameters.dtype)


@dataclass
class JacobianOfTerm:
    """Computes √w r and its derivatives for one member.

    `prepare`, called before and outside of any graph, makes it fast.
    """

    problem: Problem
    network: Network
    term: Term
    layout: ParameterLayout
    field: FieldOf  # makes u from the parameters
    _computed: Any = None
    _residuals: Any = None

    def prepare(self, flat: Tensor, rows: Rows) -> None:
        """Choose the fastest way to derivatives that is right, by trying at these rows.

        Each way tells whether its derivatives are those of all residuals together. It is asked near
        θ: [p], and farther from it, since what couples points may depend on the field.
        """
        given = (of_rows(rows), *rows.arrays)
        components = self.term.components(self.field(self.layout.unflatten(flat)), *rows.arrays)
        # A pass written out for each component would take long to compile, as of correlated points.
        many = components > max(_MANY, rows.arrays[0].shape[0])
        if not many and self._is_by_jets(rows):
            computed = tf.function(partial(self._recorded, checked=False), autograph=False)
            with contextlib.suppress(NotRecordedError):
                computed.get_concrete_function(flat, *given)
                self._computed = computed
                return
        for way in () if many else (self._recorded, self._point_by_point):
            computed = tf.function(way, autograph=False)
            try:
                # In a function around it, derivatives of which nothing is asked are not computed.
                tried = tf.function(lambda *x: judged(computed(*x)), autograph=False)  # noqa: B023
                tried = tried.get_concrete_function(flat, *given)
                right = is_right(lambda at: tried(at, *given), flat)  # noqa: B023
            except NotRecordedError:
                continue
            except Exception:  # of a residual for all points, computed at one
                if way == self._recorded:
                    raise
                continue
            if right:
                self._computed = computed
                return
        # TensorFlow counts the traces of a method over all objects, and warns of many; of a partial
        # it counts those of the one.
        self._computed = tf.function(partial(self._row_by_row), autograph=False)

    def _is_by_jets(self, rows: Rows) -> bool:
        """Return whether records of layers are known to be enough, from jets of u alone."""
        from sciml_par.networks.propagation.dense_chain import DenseChain  # imports TensorFlow

        if self.network.others or not isinstance(self.network.chain, DenseChain):
            return False
        with contextlib.suppress(Exception):  # of an integral, or of a precision of its own
            arrays = tuple(tf.cast(a, tf.float64) for a in rows.arrays)
            calls = trace(self.problem, self.term, arrays).calls
            return all(call.copies == 1 for call in calls)
        return False

    def __call__(self, flat: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Return √w r at θ, [k n], and its derivatives, transposed: [p, k n], or of fewer rows."""
        return (self._computed or self._unprepared)(flat, of_rows(rows), *rows.arrays)[:-1]

    def residuals(self, flat: Tensor, rows: Rows) -> Tensor:
        """Return √w r at θ: [p] -> [k n]."""
        if self._residuals is None:
            self._residuals = tf.function(self._weighted, autograph=False)
        return self._residuals(flat, rows.weights, *rows.arrays)

    def _weighted(self, flat: Tensor, weights: Tensor, *arrays: Tensor) -> Tensor:
        u = self.field(self.layout.unflatten(flat))
        return weighted(self.term.residual(u, *arrays), weights)

    def _recorded(
        self, flat: Tensor, weights: Tensor, *arrays: Tensor, checked: bool = True
    ) -> tuple[Tensor, ...]:
        """Compute by one reverse pass for each component of the residual."""
        if any(each.chain is None for each in (self.network, *self.network.others)):
            raise NotRecordedError
        tape, layers, r, parts, totals, own, sought = self._with_record(flat, weights, arrays)
        found = [
            layers.derivatives(part, total, self.layout)
            for part, total in zip(parts, totals, strict=True)
        ]
        by_all, right = tf.concat(found, axis=1), tf.constant(True)
        by_network = by_all[: by_all.shape[0] - self.layout.size_of_unknowns]
        if checked:
            right = layers.separates_rows(r, weights.shape[0])
            # Weights that tf.gradients multiplies by in the residual are not recorded.
            signs = signs_like(r)
            slopes = tape.gradient(r, own, signs, unconnected_gradients="zero")
            total = tf.linalg.matvec(by_network, signs)
            right &= agree(by_network, total, self.layout.flat_rows(slopes))
        if sought:
            by_unknowns = tf.concat([derivatives_by(tape, part, sought) for part in parts], axis=1)
            by_all = tf.concat([by_network, by_unknowns], axis=0)
        return r, by_all, right

    def _with_record(self, flat: Tensor, weights: Tensor, arrays: Sequence[Tensor]) -> Any:
        """Evaluate the residual, and keep what the layers of the networks multiply.

        Returns the tape, the record, √w r [k n], its parts by component and their sums, and what
        its derivatives are taken by: the parameters of the networks, and of unknowns.
        """
        parameters = self.layout.unflatten(flat)
        self.term.plan(self.field(parameters), *arrays)
        count = len(parameters) - self.layout.unknowns
        own, sought = parameters[:count], parameters[count:]
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            layers = RecordedLayers(tape)
            tape.watch(parameters)
            unknowns = values_of(self.problem.unknowns, sought) if sought else None
            u = layers.field(self.problem, self.network, own, unknowns)
            r = weighted(self.term.residual(u, *arrays), weights)
            parts = tf.split(r, int(r.shape[0] // weights.shape[0]))
            totals = [tf.reduce_sum(part) for part in parts]
        return tape, layers, r, parts, totals, own, sought

    def _point_by_point(self, flat: Tensor, weights: Tensor, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Compute by a reverse pass for each point, vectorized over the points."""

        def of_point(given: Any) -> Tensor:
            weight, row = given
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(flat)
                r = self._weighted(flat, weight, *(a[None] for a in row))
                parts = tf.unstack(r)
            return tf.stack([tape.gradient(p, flat, unconnected_gradients="zero") for p in parts])

        slopes = tf.vectorized_map(of_point, (weights, arrays))
        slopes = tf.reshape(tf.transpose(slopes, [2, 1, 0]), [self.layout.size, -1])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(flat)
            r = self._weighted(flat, weights, *arrays)
        # Σ_i s_i ∂r_i/∂θ by one reverse pass through all points.
        signs = signs_like(r)
        expected = tape.gradient(r, flat, signs, unconnected_gradients="zero")
        right = agree(slopes, tf.linalg.matvec(slopes, signs), expected)
        return r, self.layout.only_rows(slopes), right

    def _row_by_row(self, flat: Tensor, weights: Tensor, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Compute by a reverse pass through all points for each row, some rows at a time."""
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(flat)
            r = self._weighted(flat, weights, *arrays)
        count = int(r.shape[0])
        block = min(count, max(1, _AT_ONCE // int(weights.shape[0])))

        def of_row(row: Tensor) -> Tensor:
            along = tf.one_hot(row, count, dtype=r.dtype)
            return tape.gradient(r, flat, along, unconnected_gradients="zero")

        rows = tf.reshape(tf.range(-(-count // block) * block) % count, [-1, block])
        found = tf.map_fn(
            lambda part: tf.vectorized_map(of_row, part),
            rows,
            parallel_iterations=1,
            fn_output_signature=tf.TensorSpec([block, flat.shape[0]], flat.dtype),
        )
        found = tf.reshape(found, [-1, flat.shape[0]])[:count]
        return r, self.layout.only_rows(tf.transpose(found)), tf.constant(True)

    _unprepared = _row_by_row


def judged(computed: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return whether derivatives are right, and whether the residuals are finite."""
    return computed[-1], tf.reduce_all(tf.math.is_finite(computed[0]))


def is_right(tried: Tried, flat: Tensor) -> bool:
    """Return whether derivatives are right near θ: [p] and farther from it, as far as that is seen.

    Where a residual is not finite, as of a root, nothing is seen. If it is finite nowhere near θ,
    the training ends before its first step, and any derivatives will do.
    """
    for moves in ((0.1, 1.0), (1e-2, 1e-4)):
        judged = [tried(moved(flat, by)) for by in moves]
        seen = [bool(right) for right, finite in judged if finite]
        if seen:
            return all(seen)
    return True


def of_rows(rows: Rows) -> Tensor:
    """Return the weights of rows as a vector [n]."""
    return rows.weights + tf.zeros(rows.arrays[0].shape[:1], rows.arrays[0].dtype)


def signs_like(r: Tensor) -> Tensor:
    """Return a random sign for each residual."""
    return tf.constant(np.random.default_rng(0).choice([-1.0, 1.0], r.shape), r.dtype)


def agree(slopes: Tensor, total: Tensor, expected: Tensor) -> Tensor:
    """Return whether Σ_i s_i ∂r_i/∂θ of slopes is that of one reverse pass, but for rounding."""
    close = 10 * np.sqrt(np.finfo(slopes.dtype.as_numpy_dtype).eps) * tf.norm(slopes)
    return tf.norm(total - expected) <= close


def derivatives_by(tape: Any, residual: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return ∂r_i/∂a_k of residuals r: [n] by all q numbers a_k of some tensors: [q, n].

    g(w) = Σ_i w_i ∂r_i/∂a is linear in w, so that a reverse pass through it for each a_k gives a
    row. This is a forward product by two reverse ones: a ForwardAccumulator around those of a
    residual is wrong in silence. Both passes go through what lies between a and r alone, which
    is hardly ever the network.
    """
    w = tf.zeros_like(residual)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        outer.watch(w)
        back = tape.gradient(residual, parameters, w, unconnected_gradients="zero")
        flat = tf.concat([tf.reshape(each, [-1]) for each in back], axis=0)
        alone = tf.unstack(flat) if flat.shape[0] <= _FEW else []
    if alone:
        return tf.stack([outer.gradient(a, w, unconnected_gradients="zero") for a in alone])
    found = outer.jacobian(flat, w)
    return tf.zeros([flat.shape[0], *w.shape], w.dtype) if found is None else found
