"""Queries of a family in the basis of a few solutions, many at once: u = Σ_j a_j ψ_j."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.assembly.asked import Request, Rows, residual_of_rows
from sciml_par.assembly.columns import columns_at
from sciml_par.assembly.equations import NONE, Equations, slopes_of_rows
from sciml_par.families.shares import Shares
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]
Columns = Sequence[tuple[Any, Array]]
"""Functions of a basis: polynomials, and their coefficients in the rows of an array, [r, p]."""

_SHIFT = 1e-13
_STEPS, _CONVERGED, _FALL = 12, 1e-9, 0.2
_ROUNDING, _SURELY = 1e-12, 1e3
"""A residual, relative to that of u = 0, at rounding, and q for it."""
_NUMBERS = 4_000_000
"""In the matrices of queries that are solved at once."""


class RowsInBasis:
    """Some rows of the equations of a family as functions of a: [B, r] and μ: [B, q].

    The slopes of a term are √w ∂r/∂z by the jets z, [B, n, k, P], and J = Σ_P slopes · jets.

    Parameters
    ----------
    problem : without unknowns.
    equations : of a family, whose last arrays are the inputs.
    to_rows : makes these of μ.
    basis : the functions ψ_j.
    weights : T: [s, N], by which rows are multiplied; see `DualNorm`.
    """

    def __init__(
        self,
        problem: Problem,
        equations: Equations,
        to_rows: Callable[[Any], Any],
        basis: Columns,
        weights: Array | None = None,
    ) -> None:
        self.problem, self.terms, self._to_rows = problem, list[tuple[Rows, Any]](), to_rows
        self._weights = None if weights is None else tf.constant(weights)
        for rows in equations.rows:  # with the jets of the basis, [n, P, r], of all requests
            jets = np.concatenate([_jets(basis, request) for request in rows.requests], axis=1)
            self.terms.append((rows, tf.constant(jets)))

    @property
    def count(self) -> int:
        """The number of points of all terms."""
        return sum(rows.points for rows, _ in self.terms)

    def residuals(self, a: Any, inputs: Any) -> Any:
        """Return √w r of all rows, [B, N]."""
        return self.evaluated(a, inputs, slopes=False)[0]

    def linearized(self, a: Any, inputs: Any) -> tuple[Any, Any]:
        """Return √w r: [B, N] and its derivatives by a, [B, N, r]."""
        r, slopes = self.evaluated(a, inputs)
        return r, self.jacobian(slopes)

    def evaluated(self, a: Any, inputs: Any, *, slopes: bool = True) -> tuple[Any, list[Any]]:
        """Return √w r: [B, N] and the slopes of each term; at u = 0 if a is None."""
        residuals, of_terms, many = [], [], tf.shape(inputs)[0]
        inputs = self._to_rows(inputs)
        for rows, jets in self.terms:
            n = rows.points
            r, of_totals, factors = self._at(rows, jets, a, tf.repeat(inputs, n, axis=0), slopes)
            residuals.append(tf.reshape(tf.reshape(r, [many, n, -1]) * factors, [many, -1]))
            if slopes:
                of_terms.append(_stacked(of_totals, n) * factors[..., None])
        return self._weighed(tf.concat(residuals, axis=1)), of_terms

    def _weighed(self, rows: Any) -> Any:
        """Return T times rows, [B, N, …] -> [B, s, …]."""
        if self._weights is None:
            return rows
        found = tf.tensordot(rows, self._weights, [[1], [1]])
        return found if len(rows.shape) == 2 else tf.transpose(found, [0, 2, 1])

    def jacobian(self, slopes: Sequence[Any]) -> Any:
        """Return J: [B, N, r]."""
        parts = []
        for (_, jets), s in zip(self.terms, slopes, strict=True):
            _, n, k, p = s.shape
            rows = tf.reshape(tf.transpose(s, [1, 0, 2, 3]), [n, -1, p]) @ jets
            rows = tf.transpose(tf.reshape(rows, [n, -1, k, rows.shape[2]]), [1, 0, 2, 3])
            parts.append(tf.reshape(rows, [-1, n * k, rows.shape[3]]))
        return self._weighed(tf.concat(parts, axis=1))

    def shares(self, vectors: Array | None) -> Shares | None:
        """Return the J_k of rows r(0; μ) + Σ_k θ_k(μ) J_k a, if few suffice.

        vectors : queries at which they must, μ: [L, q]; None if rows are nonlinear.
        """
        if vectors is None:
            return None
        _, slopes = self.evaluated(None, tf.constant(vectors))
        shapes = [s.shape[1:] for s in slopes]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

        def columns(part: Array) -> Array:
            pairs = zip(np.split(part, ends), shapes, strict=True)
            j = self.jacobian([tf.constant(s.reshape(1, *shape)) for s, shape in pairs])
            return np.ascontiguousarray(j[0].numpy().T)

        return Shares.of(_together(slopes).numpy(), columns)

    def in_shares(self, shares: Shares, inputs: Any) -> tuple[Any, Any, Any]:
        """Return r(0): [B, N], θ: [B, K], and whether these are what rows are."""
        r, slopes = self.evaluated(None, inputs)
        return r, *shares.theta(_together(slopes))

    def by_inputs(self, a: Any, inputs: Any) -> Any:
        """Return the derivatives of all rows by the inputs, [B, N, q]."""
        found, many, q = [], tf.shape(a)[0], inputs.shape[1]
        inputs = self._to_rows(inputs)
        for rows, jets in self.terms:
            columns = tf.repeat(inputs, rows.points, axis=0)
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(columns)
                r, _, factors = self._at(rows, jets, a, columns, False)
                totals = [tf.reduce_sum(r[:, j]) for j in range(rows.asked.components)]
            slopes = [tape.gradient(t, columns, unconnected_gradients="zero") for t in totals]
            stacked = tf.reshape(tf.stack(slopes, axis=1), [many, rows.points, -1, q])
            found.append(tf.reshape(stacked * factors[..., None], [many, -1, q]))
        by_rows = self._weighed(tf.concat(found, axis=1))
        return tf.reshape(self._to_rows(tf.reshape(by_rows, [-1, q])), tf.shape(by_rows))

    def _at(
        self, rows: Rows, jets: Any, a: Any, columns: Any, slopes: bool
    ) -> tuple[Any, Any, Any]:
        """Return r: [B n, k] of a term, its derivatives by jets, and √w: [n, 1].

        columns : the inputs in a row for each point, [B n, q].
        """
        m, (n, p, r) = self.problem.network_outputs, jets.shape
        many = tf.shape(columns)[0] // n
        if a is None:
            values = tf.zeros([p // m, m, many * n], tf.float64)
        else:
            values = tf.matmul(tf.reshape(jets, [-1, r]), a, transpose_b=True)
            values = tf.transpose(tf.reshape(values, [n, p // m, m, many]), [1, 2, 3, 0])
            values = tf.reshape(values, [p // m, m, many * n])
        z = tf.split(values, [request.size for request in rows.requests])
        arrays = [tf.tile(each, [many, *[1] * (len(each.shape) - 1)]) for each in rows.arrays[:-1]]
        arrays.append(columns)
        requests = rows.requests
        if tf.executing_eagerly():  # where points are compared with what a residual asks for
            requests = tuple(Request(np.tile(q.x, (many, 1)), q.operators) for q in requests)
        rows = replace(rows, arrays=tuple(arrays), requests=requests)
        factors = tf.constant(rows.factors[:, None])
        if not slopes:
            return residual_of_rows(self.problem, rows, z, tf.constant(NONE)), None, factors
        residual, of_totals, _ = slopes_of_rows(self.problem, rows, z, tf.constant(NONE), arrays)
        return residual, of_totals, factors


def _stacked(of_totals: Sequence[Sequence[Any]], n: int) -> Any:
    """Return derivatives by z, [Q, m, B n] for components and requests, as [B, n, k, P]."""
    of_components = [
        tf.concat([tf.reshape(s, [s.shape[0] * s.shape[1], -1]) for s in of_requests], axis=0)
        for of_requests in of_totals
    ]
    stacked = tf.stack(of_components)
    k, p, _ = stacked.shape
    return tf.transpose(tf.reshape(stacked, [k, p, -1, n]), [2, 3, 0, 1])


def _jets(basis: Columns, request: Request) -> Array:
    """Return the jets of the functions of a basis at each point, [n, Q m, r]."""
    parts = []
    for model, coefficients in basis:
        _, width, m = model.coefficients.shape
        (columns,) = columns_at(model, replace(request, read=None))
        c = coefficients.reshape(-1, width, m).transpose(1, 2, 0).reshape(width, -1)
        jets = np.matmul(columns.jets.transpose(2, 0, 1), c)  # [n, Q, m r]
        parts.append(jets.reshape(len(jets), request.size * m, -1))
    return np.concatenate(parts, axis=2)


def _together(slopes: Sequence[Any]) -> Any:
    """Return slopes of all terms as rows, [B, W]."""
    flat = [tf.reshape(s, [-1, math.prod(s.shape[1:])]) for s in slopes]
    return tf.concat(flat, axis=1)


class Step:
    """The step of least squares from a: argmin_d |J d + r(a)|.

    Parameters
    ----------
    rows : of the equations.
    linear : at which queries, μ: [L, q], sums for J are sought; None if rows are nonlinear.
    """

    def __init__(self, rows: RowsInBasis, linear: Array | None) -> None:
        self.rows, self.linear = rows, linear is not None
        self._shares = rows.shares(linear)

    def __call__(self, a: Any, inputs: Any) -> tuple[Any, Any]:
        """Return d: [B, r], and what is left of linear rows, √Σ (r(a) + J d)²: [B]."""

        def by_jacobian() -> tuple[Any, Any]:
            r, j = self.rows.linearized(a, inputs)
            d = least_squares(j)(r)
            return d, tf.norm(r + tf.linalg.matvec(j, d), axis=1)

        shares = self._shares
        if shares is None:
            return by_jacobian()
        zero, theta, whether = self.rows.in_shares(shares, inputs)

        def by_shares() -> tuple[Any, Any]:
            r = zero + shares.times(theta, a)
            d = _solver(
                shares.gram(theta),
                lambda d: shares.times(theta, d),
                lambda v: shares.transposed(theta, v),
            )(r)
            return d, tf.norm(r + shares.times(theta, d), axis=1)

        return tf.cond(whether, by_shares, by_jacobian)


def least_squares(j: Any) -> Callable[[Any], Any]:
    """Return r: [B, N] -> argmin_d |J d + r|: [B, r] for J: [B, N, r]."""
    return _solver(
        tf.matmul(j, j, transpose_a=True),
        lambda d: tf.linalg.matvec(j, d),
        lambda v: tf.linalg.matvec(j, v, transpose_a=True),
    )


def _solver(gram: Any, times: Any, transposed: Any) -> Callable[[Any], Any]:
    """Return r: [B, N] -> argmin_d |J d + r| by the normal equations with JᵀJ: [B, r, r].

    times, transposed : d -> J d and v -> Jᵀ v.
    """
    scale = tf.sqrt(tf.maximum(tf.linalg.diag_part(gram), np.finfo(np.float64).tiny))
    shift = _SHIFT * tf.eye(gram.shape[2], dtype=gram.dtype)
    factor = tf.linalg.cholesky(gram / (scale[:, None] * scale[..., None]) + shift)

    def from_residuals(left: Any) -> Any:
        right = transposed(left) / scale
        return -tf.linalg.cholesky_solve(factor, right[..., None])[..., 0] / scale

    def solve(r: Any) -> Any:
        d = from_residuals(r)
        # Once more, which recovers the digits that the shift and the square have cost.
        return d + from_residuals(r + times(d))

    return solve


def _compiled(function: Callable[..., Any], *sizes: int) -> Any:
    """Return a graph of a function of arrays [B, n], which a call enters without other checks."""
    specs = [tf.TensorSpec([None, n], tf.float64) for n in sizes]
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def _in_parts(graph: Any, a: Array, vectors: Array, rows: int) -> list[Array]:
    """Return what a graph gives for a: [B, r] and μ: [B, q], of so many at once as memory holds."""
    parts = max(1, math.ceil(a.size * rows / _NUMBERS))
    pairs = zip(np.array_split(a, parts), np.array_split(vectors, parts), strict=True)
    found = [graph(tf.constant(of_a), tf.constant(of_vectors)) for of_a, of_vectors in pairs]
    return [
        np.concatenate([np.asarray(part) for part in each]) for each in zip(*found, strict=True)
    ]


class Reduced:
    """Gauss–Newton in the coordinates of a basis, compiled once for any number of queries.

    Parameters
    ----------
    step : by rows at about five points for each function of the basis.
    """

    def __init__(self, step: Step, *, size: int, inputs: int) -> None:
        self.step, self._sizes = step, (size, inputs)
        self._solve = _compiled(self._steps, size, inputs)

    def solve(self, a: Array, vectors: Array) -> tuple[Array, Array]:
        """Return a: [B, r] for μ: [B, q], and √(Σ r²) of its rows, [B] (local)."""
        a, left = _in_parts(self._solve, a, vectors, self.step.rows.count)
        return a, left

    def by_inputs(self, a: Array, vectors: Array) -> Array:
        """Return ∂a/∂μ = −J⁺ ∂r/∂μ at solutions, [B, r, q] (local)."""
        return np.asarray(self._slope(tf.constant(a), tf.constant(vectors)))

    @cached_property
    def _slope(self) -> Any:
        return _compiled(self._by_inputs, *self._sizes)

    def _steps(self, a: Any, inputs: Any) -> tuple[Any, Any]:
        if self.step.linear:
            return self.step(tf.zeros_like(a), inputs)

        rows, infinite = self.step.rows, tf.constant(np.inf, tf.float64)

        def unfinished(k: Any, a: Any, size: Any) -> Any:
            return tf.logical_and(k < _STEPS, size > _CONVERGED)

        def newton(k: Any, a: Any, size: Any) -> Any:
            """Make steps with one J, as long as they become smaller fast."""
            r, j = rows.linearized(a, inputs)
            solve = least_squares(j)

            def moved(a: Any, r: Any) -> tuple[Any, Any]:
                d = solve(r)
                return a + d, tf.reduce_max(tf.norm(d, axis=1) / (tf.norm(a + d, axis=1) + 1e-300))

            def falling(k: Any, a: Any, size: Any, former: Any) -> Any:
                return tf.logical_and(unfinished(k, a, size), size < _FALL * former)

            def step(k: Any, a: Any, size: Any, _: Any) -> tuple[Any, Any, Any, Any]:
                return k + 1, *moved(a, rows.residuals(a, inputs)), size

            return tf.while_loop(falling, step, (k + 1, *moved(a, r), infinite))[:3]

        _, a, _ = tf.while_loop(unfinished, newton, (0, a, infinite))
        return a, tf.norm(rows.residuals(a, inputs), axis=1)

    def _by_inputs(self, a: Any, inputs: Any) -> Any:
        _, j = self.step.rows.linearized(a, inputs)
        columns = tf.unstack(self.step.rows.by_inputs(a, inputs), inputs.shape[1], axis=2)
        return tf.stack(list(map(least_squares(j), columns)), axis=2)


class QuickError:
    """e by least squares in the coordinates of the basis and one of errors, and q, for many.

    Parameters
    ----------
    seen, unseen : rows of both bases, at other points.
    gram : of both bases in L2, [r + r_e, r + r_e].
    inputs : how many numbers these are.
    linear : see `Step`.
    """

    def __init__(
        self,
        seen: RowsInBasis,
        unseen: RowsInBasis,
        gram: Array,
        *,
        inputs: int,
        linear: Array | None,
    ) -> None:
        self.seen, self.unseen, self.gram = Step(seen, linear), unseen, gram
        self._shares = unseen.shares(linear)
        self._errors = _compiled(self._corrected, len(gram), inputs)

    def __call__(self, a: Array, vectors: Array) -> tuple[Array, Array, Array]:
        """Return e: [B, r + r_e], |e| / |u + e| and q, for a: [B, r] and μ: [B, q] (local)."""
        a = np.pad(a, ((0, 0), (0, len(self.gram) - a.shape[1])))
        e, before, after, of_zero = _in_parts(self._errors, a, vectors, self.seen.rows.count)
        of_e, of_u = (
            np.sqrt(np.maximum(np.einsum("bi,ij,bj->b", v, self.gram, v), 0)) for v in (e, a + e)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            rounded = before <= _ROUNDING * of_zero
            return e, of_e / of_u, np.where(rounded, _SURELY, before / after)

    def _corrected(self, a: Any, inputs: Any) -> tuple[Any, Any, Any, Any]:
        e, _ = self.seen(a, inputs)

        def by_rows() -> list[Any]:
            return [self.unseen.residuals(z, inputs) for z in (a, a + e, tf.zeros_like(a))]

        shares = self._shares
        if shares is None:
            of = by_rows()
        else:
            zero, theta, whether = self.unseen.in_shares(shares, inputs)

            def by_shares() -> list[Any]:
                # After e by the equations themselves, so that q tells what sums do not.
                return [zero + shares.times(theta, a), self.unseen.residuals(a + e, inputs), zero]

            of = tf.cond(whether, by_shares, by_rows)
        return e, *(tf.norm(r, axis=1) for r in of)
