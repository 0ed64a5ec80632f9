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
from sciml_par.assembly.columns import jets_of
from sciml_par.assembly.equations import (
    NONE,
    Equations,
    Request,
    Rows,
    residual_of_rows,
    slopes_of_rows,
)
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]
Columns = Sequence[tuple[Any, Array]]
"""Functions of a basis: polynomials, and their coefficients in the rows of an array, [r, p]."""

_SHIFT = 1e-13
_STEPS, _CONVERGED = 8, 1e-9
_ROUNDING, _SURELY = 1e-12, 1e3
"""A residual, relative to that of u = 0, at rounding, and q for it."""
_NUMBERS = 4_000_000
"""In the matrices of queries that are solved at once."""


class RowsInBasis:
    """Some rows of the equations of a family as functions of a: [B, r] and μ: [B, q].

    Parameters
    ----------
    problem : without unknowns.
    equations : of a family, whose last arrays are the inputs.
    chosen : the places of the points that are kept of each term.
    basis : the functions ψ_j.
    """

    def __init__(
        self, problem: Problem, equations: Equations, chosen: Sequence[Any], basis: Columns
    ) -> None:
        self.problem, self.terms = problem, list[tuple[Rows, list[Any], int]]()
        for rows, places in zip(equations.rows, chosen, strict=True):
            scale = np.sqrt(rows.points / max(len(places), 1))
            kept = replace(
                rows,
                arrays=tuple(tf.gather(each, places) for each in rows.arrays),
                factors=rows.factors[places] * scale,
                requests=tuple(
                    Request(request.x[places], request.operators) for request in rows.requests
                ),
            )
            jets = [tf.constant(_jets(basis, request)) for request in kept.requests]
            self.terms.append((kept, jets, len(places)))

    @property
    def count(self) -> int:
        """The number of points of all terms."""
        return sum(n for _, _, n in self.terms)

    def residuals(self, a: Any, inputs: Any) -> Any:
        """Return √w r of all rows, [B, N]."""
        return self.linearized(a, inputs, slopes=False)[0]

    def linearized(self, a: Any, inputs: Any, *, slopes: bool = True) -> tuple[Any, Any]:
        """Return √w r: [B, N] and its derivatives by a, [B, N, r]."""
        found, matrices, many = [], [], tf.shape(a)[0]
        for rows, jets, n in self.terms:
            r, of_totals, factors = self._evaluated(
                rows, jets, a, tf.repeat(inputs, n, axis=0), slopes
            )
            found.append(tf.reshape(tf.reshape(r, [many, n, -1]) * factors, [many, -1]))
            if not slopes:
                continue
            parts = []
            for of_component in of_totals:
                split = [tf.reshape(s, [s.shape[0] * s.shape[1], -1, n]) for s in of_component]
                pairs = zip(split, jets, strict=True)
                products = [tf.transpose(s, [2, 1, 0]) @ each for s, each in pairs]
                parts.append(tf.transpose(tf.add_n(products), [1, 0, 2]))
            j = tf.stack(parts, axis=2) * factors[..., None]
            matrices.append(tf.reshape(j, [many, -1, a.shape[1]]))
        return tf.concat(found, axis=1), tf.concat(matrices, axis=1) if slopes else None

    def by_inputs(self, a: Any, inputs: Any) -> Any:
        """Return the derivatives of all rows by the inputs, [B, N, q]."""
        found, many, q = [], tf.shape(a)[0], inputs.shape[1]
        for rows, jets, n in self.terms:
            columns = tf.repeat(inputs, n, axis=0)
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(columns)
                r, _, factors = self._evaluated(rows, jets, a, columns, False)
                totals = [tf.reduce_sum(r[:, j]) for j in range(rows.asked.components)]
            slopes = [tape.gradient(t, columns, unconnected_gradients="zero") for t in totals]
            stacked = tf.reshape(tf.stack(slopes, axis=1), [many, n, -1, q]) * factors[..., None]
            found.append(tf.reshape(stacked, [many, -1, q]))
        return tf.concat(found, axis=1)

    def _evaluated(
        self, rows: Rows, jets: list[Any], a: Any, columns: Any, slopes: bool
    ) -> tuple[Any, Any, Any]:
        """Return r: [B n, k] of a term, its derivatives by jets, and √w: [n, 1].

        columns : the inputs in a row for each point, [B n, q].
        """
        many = tf.shape(a)[0]
        z, m = [], self.problem.network_outputs
        for of_request in jets:
            n, width, r = of_request.shape
            values = tf.matmul(tf.reshape(of_request, [-1, r]), a, transpose_b=True)
            values = tf.transpose(tf.reshape(values, [n, width // m, m, many]), [1, 2, 3, 0])
            z.append(tf.reshape(values, [width // m, m, -1]))
        arrays = [tf.tile(each, [many, *[1] * (len(each.shape) - 1)]) for each in rows.arrays[:-1]]
        arrays.append(columns)
        requests = rows.requests
        if tf.executing_eagerly():  # where points are compared with what a residual asks for
            requests = tuple(Request(np.tile(q.x, (many, 1)), q.operators) for q in requests)
        rows = replace(rows, arrays=tuple(arrays), requests=requests)
        factors = tf.constant(rows.factors[:, None])
        if not slopes:
            return residual_of_rows(self.problem, rows, z, tf.constant(NONE)), None, factors
        r, of_totals, _ = slopes_of_rows(self.problem, rows, z, tf.constant(NONE), arrays)
        return r, of_totals, factors


def _jets(basis: Columns, request: Request) -> Array:
    """Return the jets of the functions of a basis at each point, [n, Q m, r]."""
    found = []
    for model, coefficients in basis:
        shape = tuple(model.coefficients.shape)
        found += [jets_of(model, c.reshape(shape), request) for c in coefficients]
    jets = np.stack(found, axis=-1)
    return np.ascontiguousarray(jets.reshape(-1, *jets.shape[2:]).transpose(1, 0, 2))


def least_squares(j: Any, r: Any) -> Any:
    """Return argmin_d |J d + r| by normal equations: J [B, N, r], r [B, N] -> [B, r]."""
    scale = tf.maximum(tf.norm(j, axis=1), np.finfo(np.float64).tiny)
    j = j / scale[:, None]
    gram = tf.matmul(j, j, transpose_a=True)
    factor = tf.linalg.cholesky(gram + _SHIFT * tf.eye(j.shape[2], dtype=j.dtype))
    d = tf.zeros([tf.shape(r)[0], j.shape[2], 1], j.dtype)
    for _ in range(2):  # the second recovers the digits that the shift and the square have cost
        left = r[..., None] + tf.matmul(j, d)
        d -= tf.linalg.cholesky_solve(factor, tf.matmul(j, left, transpose_a=True))
    return d[..., 0] / scale


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
    rows : at about five points for each function of the basis.
    linear : whether one step from zero solves.
    """

    def __init__(self, rows: RowsInBasis, *, size: int, inputs: int, linear: bool) -> None:
        self.rows, self.linear = rows, linear
        self._sizes = size, inputs
        self._solve = _compiled(self._steps, size, inputs)

    def solve(self, a: Array, vectors: Array) -> tuple[Array, Array]:
        """Return a: [B, r] for μ: [B, q], and √(Σ r²) of its rows, [B] (local)."""
        a, left = _in_parts(self._solve, a, vectors, self.rows.count)
        return a, left

    def by_inputs(self, a: Array, vectors: Array) -> Array:
        """Return ∂a/∂μ = −J⁺ ∂r/∂μ at solutions, [B, r, q] (local)."""
        return np.asarray(self._slope(tf.constant(a), tf.constant(vectors)))

    @cached_property
    def _slope(self) -> Any:
        return _compiled(self._by_inputs, *self._sizes)

    def _steps(self, a: Any, inputs: Any) -> tuple[Any, Any]:
        if self.linear:
            a = a + least_squares(*self.rows.linearized(a, inputs)[::-1])
            return a, tf.norm(self.rows.residuals(a, inputs), axis=1)

        def step(k: Any, a: Any, size: Any) -> tuple[Any, Any, Any]:
            d = least_squares(*self.rows.linearized(a, inputs)[::-1])
            moved = tf.norm(d, axis=1) / (tf.norm(a + d, axis=1) + 1e-300)
            return k + 1, a + d, tf.reduce_max(moved)

        _, a, _ = tf.while_loop(
            lambda k, a, size: tf.logical_and(k < _STEPS, size > _CONVERGED),
            step,
            (0, a, tf.constant(np.inf, tf.float64)),
        )
        return a, tf.norm(self.rows.residuals(a, inputs), axis=1)

    def _by_inputs(self, a: Any, inputs: Any) -> Any:
        _, j = self.rows.linearized(a, inputs)
        columns = tf.unstack(self.rows.by_inputs(a, inputs), inputs.shape[1], axis=2)
        return tf.stack([least_squares(j, each) for each in columns], axis=2)


class QuickError:
    """e by least squares in the coordinates of the basis and one of errors, and q, for many.

    Parameters
    ----------
    seen, unseen : rows of both bases, at other points.
    gram : of both bases in L2, [r + r_e, r + r_e].
    """

    def __init__(self, seen: RowsInBasis, unseen: RowsInBasis, gram: Array, *, inputs: int) -> None:
        self.seen, self.unseen, self.gram = seen, unseen, gram
        self._errors = _compiled(self._corrected, len(gram), inputs)

    def __call__(self, a: Array, vectors: Array) -> tuple[Array, Array, Array]:
        """Return e: [B, r + r_e], |e| / |u + e| and q, for a: [B, r] and μ: [B, q] (local)."""
        a = np.pad(a, ((0, 0), (0, len(self.gram) - a.shape[1])))
        e, before, after, of_zero = _in_parts(self._errors, a, vectors, self.seen.count)
        of_e, of_u = (
            np.sqrt(np.maximum(np.einsum("bi,ij,bj->b", v, self.gram, v), 0)) for v in (e, a + e)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            rounded = before <= _ROUNDING * of_zero
            return e, of_e / of_u, np.where(rounded, _SURELY, before / after)

    def _corrected(self, a: Any, inputs: Any) -> tuple[Any, Any, Any]:
        e = least_squares(*self.seen.linearized(a, inputs)[::-1])
        of = (self.unseen.residuals(each, inputs) for each in (a, a + e, tf.zeros_like(a)))
        return e, *(tf.norm(r, axis=1) for r in of)
