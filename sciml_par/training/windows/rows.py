"""Residuals and their derivatives by the output layers of windows, of this rank's points.

A residual depends on the value of u, its first derivatives and operators of second order at its
points, the jets z_q of `sciml_par.networks.MLP.jet`. With the columns φ_q of a window k, the same
quantities of what its output layer C_k multiplies,

    z_q = Σ_k C_kᵀ φ_kq        ∂r_i/∂C_k[a, b] = Σ_q φ_kq[a, i] ∂r_i/∂z_qb[i]

so that only ∂r/∂z is traced, and the columns are computed window by window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import order_of
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.answers import on_trial
from sciml_par.problems.fields.field import Field
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknowns import values_of
from sciml_par.training.loss.jacobian import derivatives_by, weighted, where_not_finite
from sciml_par.training.members.stack import Stack
from sciml_par.training.points.feed import Batch, Rows
from sciml_par.training.windows.columns import Columns, OfBase, Request

Tensor = Any
Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowRows:
    """√w r [N] and J of this rank's points, by unknowns [N, q] and by windows.

    blocks : by the number of a window, its rows, [R], and their derivatives by c weights, [R, c].
    """

    residuals: Array
    blocks: dict[int, tuple[IntArray, Array]]
    by_unknowns: Array


class RowsOfWindows:
    """Computes `WindowRows` of one training.

    base : a model in windows that the network is added to; None for the network alone.
    """

    def __init__(self, stack: Stack, base: Any = None) -> None:
        self._stack = stack
        self._columns = Columns(stack.network.model)
        of_base = None if base is None else OfBase(base)
        self._terms = [_Term(stack, term, self._columns, of_base) for term in stack.terms]

    def rows(self, theta: Array, batch: Batch) -> WindowRows:
        """Return r and J at θ: [p] (local)."""
        found, unknowns, done = [], [], 0
        parts: dict[int, list[tuple[IntArray, Array]]] = {}
        for term, rows in self._with_points(batch):
            requests = term.requests(theta, rows)
            r, by_jets, by_unknowns = term.slopes(theta, rows, requests)
            for k, i, slopes in self._blocks(requests, by_jets):
                parts.setdefault(k, []).append((done + i, slopes))
            found.append(r.ravel())
            unknowns.append(by_unknowns.reshape(-1, r.size).T if r.size else by_unknowns)
            done += r.size
        none = np.empty((0, self._stack.layout.size_of_unknowns))
        return WindowRows(
            np.concatenate([np.empty(0), *found]),
            {k: _joined(each) for k, each in sorted(parts.items())},
            np.vstack([none, *unknowns]),
        )

    def terms(self, theta: Array, batch: Batch) -> Array:
        """Return the terms of the loss at θ: [p] over this rank's points, [T] (local)."""
        found = np.zeros(len(self._terms))
        for number, (term, rows) in enumerate(zip(self._terms, batch, strict=True)):
            if rows.arrays[0].shape[0]:
                requests = term.requests(theta, rows)
                found[number] = np.sum(term.residuals(theta, rows, requests) ** 2)
        return found

    def squares(self, theta: Array, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Return this rank's points of each term, [n, d], and w |r|² there, [n] (local)."""
        for term, rows in self._with_points(batch):
            r = term.residuals(theta, rows, term.requests(theta, rows))
            yield np.asarray(rows.arrays[0]), np.sum(r**2, axis=0)

    def _with_points(self, batch: Batch) -> Iterator[tuple[_Term, Rows]]:
        for term, rows in zip(self._terms, batch, strict=True):
            if rows.arrays[0].shape[0]:
                yield term, rows

    def _blocks(
        self, requests: Sequence[Request], by_jets: Sequence[Array]
    ) -> Iterator[tuple[int, IntArray, Array]]:
        """Return the rows of each window: its number, their numbers, and derivatives [R, c]."""
        for request, slopes in zip(requests, by_jets, strict=True):
            used = np.any(slopes != 0.0, axis=(0, 1, 2))  # of the quantities, [1 + d + K]
            k, n = slopes.shape[0], len(request.x)
            for window, points in self._columns.windows(request.x):
                columns = self._columns.at(window, request.x[points], request.second, used)
                chosen = slopes[:, :, points][..., used]
                block = _products(chosen, columns)
                rows = (np.arange(k)[:, None] * n + points).ravel()
                yield window, rows, block.reshape(len(rows), -1)


class _Term:
    """One term of the loss."""

    def __init__(self, stack: Stack, term: Term, columns: Columns, base: OfBase | None) -> None:
        self._stack, self._term, self._columns, self._base = stack, term, columns, base
        self._seconds: list[Array] | None = None
        # TensorFlow counts the traces of a method over all objects, but not those of partials.
        self._points = tf.function(partial(self._traced_points), autograph=False)
        self._residuals = tf.function(partial(self._traced_residuals), autograph=False)
        self._slopes = tf.function(partial(self._traced_slopes), autograph=False)

    def requests(self, theta: Array, rows: Rows) -> list[Request]:
        """Return where and for what the residual asks u."""
        x = self._points(*rows.arrays)
        assert self._seconds is not None
        return [Request(e.numpy(), s) for e, s in zip(x, self._seconds, strict=True)]

    def residuals(self, theta: Array, rows: Rows, requests: Sequence[Request]) -> Array:
        """Return √w r, [k, n]."""
        jets = self._jets(theta, requests)
        r = self._residuals(tf.constant(theta), rows.weights, jets, *rows.arrays)
        return np.asarray(r.numpy())

    def slopes(
        self, theta: Array, rows: Rows, requests: Sequence[Request]
    ) -> tuple[Array, list[Array], Array]:
        """Return √w r [k, n]; its derivatives by each jet, [k, m, n, 1 + d + K], and [q, k, n]."""
        jets = self._jets(theta, requests)
        r, slopes, by_unknowns, separate = self._slopes(
            tf.constant(theta), rows.weights, jets, *rows.arrays
        )
        if not np.isfinite(r).all():
            where = where_not_finite(r, rows.arrays[0])
            raise InputError(f"LeastSquares with Windows: the term {self._term.name!r} {where}.")
        if not bool(separate):
            raise InputError(
                f"LeastSquares with Windows: the term {self._term.name!r} couples points, as an "
                f"integral does, so that its derivatives are not block-sparse. Take "
                f"optimizer=LevenbergMarquardt(), or impose it at single points."
            )
        return r.numpy(), [each.numpy() for each in slopes], by_unknowns.numpy()

    def _jets(self, theta: Array, requests: Sequence[Request]) -> list[Tensor]:
        """Return the jets of the network at the requests, [m, n, 1 + d + K]."""
        network, layout = self._stack.network, self._stack.layout
        kernel, bias = network.linear or ()
        parts = np.split(theta, np.cumsum(layout.sizes)[:-1])
        shape = layout.shapes[kernel]
        weights = np.concatenate(
            [parts[kernel].reshape(shape), parts[bias].reshape(shape[0], 1, shape[2])], axis=1
        )
        found = [self._columns.jets(weights, each) for each in requests]
        if self._base is not None:
            found = [e + self._base.jets(r) for e, r in zip(found, requests, strict=True)]
        return [tf.constant(each) for each in found]

    def _traced_points(self, *arrays: Tensor) -> list[Tensor]:
        found: list[tuple[Tensor, Array]] = []
        m = int(self._stack.network.model.output_size)

        def asked(x: Tensor, second: Array) -> Tensor:
            found.append((x, second))
            n = x.shape[0]
            return tf.zeros([m, n, 1 + second.shape[1] + len(second)], x.dtype)

        start = tf.constant(self._stack.parameters[0])
        u = self._field(start, asked)
        self._term.plan(u, *arrays)
        self._term.residual(u, *arrays)
        self._seconds = [second for _, second in found]
        return [x for x, _ in found]

    def _traced_residuals(
        self, flat: Tensor, weights: Tensor, jets: list[Tensor], *arrays: Tensor
    ) -> Tensor:
        given = iter(jets)
        u = self._field(flat, lambda x, second: next(given))
        self._term.plan(self._field(flat, _zeros), *arrays)
        r = weighted(self._term.residual(u, *arrays), weights)
        return tf.reshape(r, [-1, arrays[0].shape[0]])

    def _traced_slopes(
        self, flat: Tensor, weights: Tensor, jets: list[Tensor], *arrays: Tensor
    ) -> Any:
        layout, n = self._stack.layout, arrays[0].shape[0]
        self._term.plan(self._field(flat, _zeros), *arrays)
        sought = layout.unflatten(flat)[len(layout.shapes) - layout.unknowns :]
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch([*jets, *sought])
            given = iter(jets)
            u = self._field(flat, lambda x, second: next(given), sought)
            r = weighted(self._term.residual(u, *arrays), weights)
            parts = tf.split(r, int(r.shape[0] // n))
            totals = [tf.reduce_sum(part) for part in parts]
        zero = tf.UnconnectedGradients.ZERO
        found = [tape.gradient(total, jets, unconnected_gradients=zero) for total in totals]
        slopes = [tf.stack([each[e] for each in found]) for e in range(len(jets))]
        by_unknowns = [
            derivatives_by(tape, part, sought) if sought else tf.zeros([0, n], r.dtype)
            for part in parts
        ]
        separate = _separate(tape, r, n, jets, found)
        return tf.reshape(r, [-1, n]), slopes, tf.stack(by_unknowns, axis=1), separate

    def _field(self, flat: Tensor, jets: Any, sought: Sequence[Tensor] | None = None) -> Field:
        """Return the problem's field whose network has the jets that a function returns."""
        problem, network, layout = self._stack.problem, self._stack.network, self._stack.layout
        parameters = layout.unflatten(flat)
        own, rest = parameters[: len(network.own_variables)], parameters[-layout.unknowns :]
        d = problem.domain.dimension

        def value(x: Tensor) -> Tensor:
            if on_trial():
                return network.apply(own, x)
            return tf.transpose(jets(x, np.zeros((0, d, d)))[:, :, 0])

        def jet(x: Tensor, second: Any, *, higher: Any = ()) -> tuple[Tensor, ...]:
            if higher:
                raise InputError(
                    f"LeastSquares with Windows: a residual asks for derivatives of order "
                    f"{max(map(order_of, higher))}, and its windows have those of order two. "
                    f"Take a network without Windows, or make the equation a system, "
                    f"with ∂u/∂x as a further component of outputs=."
                )
            if on_trial():
                assert network.jet is not None
                return network.jet(own, x, second)
            found = tf.transpose(jets(x, np.asarray(second, np.float64)), [1, 0, 2])
            return found[:, :, 0], found[:, :, 1 : 1 + d], found[:, :, 1 + d :]

        values = values_of(problem.unknowns, sought or rest) if layout.unknowns else None
        return problem.field(Field(value, jet=jet), unknowns=values)


def _products(slopes: Array, columns: Sequence[Array]) -> Array:
    """Return Σ_q of slopes [k, m, R, Q] and columns Q of [w, R]: [k, R, w, m]."""
    k, m, count, _ = slopes.shape
    width = columns[0].shape[0] if columns else 0
    found = np.zeros((k, count, width, m))
    for j in range(k):
        for b in range(m):
            for q, each in enumerate(columns):
                factor = slopes[j, b, :, q]
                if np.any(factor):
                    found[j, :, :, b] += (each * factor).T
    return found


def _zeros(x: Tensor, second: Array) -> Tensor:
    raise AssertionError("a plan is recorded without computing")


def _separate(
    tape: Any, r: Tensor, n: int, jets: Sequence[Tensor], found: Sequence[Sequence[Tensor]]
) -> Tensor:
    """Return whether row i of r: [k n] depends on the jets of point i alone.

    Then a factor of row i is one of the derivatives by the jets of point i. Powers of two are such
    factors without any rounding.
    """
    factors = tf.constant(2.0 ** (np.random.default_rng(0).permutation(n) % 16 - 8), r.dtype)
    k = r.shape[0] // n
    scaled = tape.gradient(
        r, jets, tf.tile(factors, [k]), unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    right = tf.constant(True)
    for e, each in enumerate(scaled):
        if each.shape[1] != n:
            return tf.constant(False)
        expected = tf.add_n([of_part[e] for of_part in found]) * factors[:, None]
        close = 1e3 * np.finfo(r.dtype.as_numpy_dtype).eps * tf.reduce_max(tf.abs(expected))
        right &= tf.reduce_all(tf.abs(each - expected) <= close)
    return right


def _joined(parts: list[tuple[IntArray, Array]]) -> tuple[IntArray, Array]:
    """Return the rows of one window in their order; what belongs to the same row is added."""
    rows = np.concatenate([r for r, _ in parts])
    values = np.vstack([b for _, b in parts])
    order = np.argsort(rows, kind="stable")
    rows, values = rows[order], values[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(starts) == len(rows):
        return rows, values
    return rows[starts], np.add.reduceat(values, starts, axis=0)
