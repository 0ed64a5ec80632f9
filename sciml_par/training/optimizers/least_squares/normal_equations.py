"""The normal equations of a Gauss–Newton step, by Cholesky factors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.execution.host_function import can_call_on_host
from sciml_par.training.loss.known import Jacobian, squared
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host, found_by_first
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]


class NormalEquations(LinearSystem):
    """(JᵀJ + λ D²) d = Jᵀ v with JᵀJ: [p, p] on every rank.

    Each rank multiplies its own rows. One allreduce adds the lower triangles of JᵀJ, Jᵀr and the
    terms of the loss over the ranks. The first rank factorizes and solves, and the others take its
    solution, so that ranks on different processors make the same step to the last bit.

    On the host, matrices are made by BLAS and LAPACK, in double precision: XLA's own Cholesky
    factorization takes a hundred times as long for a few hundred parameters. In programs on a GPU
    XLA hands factorizations to the GPU's solver library, and `matrix` is all of JᵀJ, [M, p, p].
    """

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        known = objective.evaluate(Jacobian, parameters, batch)
        ranks, residuals, jacobian = objective.ranks, known.residuals, known.jacobian
        members, p = parameters.shape
        triangle, count = p * (p + 1) // 2, len(residuals)
        if not can_call_on_host():
            return self._on_device(ranks, residuals, jacobian)
        both = [tf.cast(each, tf.float64) for each in (*residuals, *jacobian)]
        shape = (members, triangle + p + count)
        here = algebra_on_host(partial(_products, count), both, [shape], columns=p)[0]
        whole = ranks.sum(here)
        packed, gradient, terms = tf.split(whole, [triangle, p, count], axis=1)
        return Linearization(ranks, residuals, jacobian, packed, gradient, terms)

    def _on_device(
        self, ranks: Ranks, residuals: list[Tensor], jacobian: list[Tensor]
    ) -> Linearization:
        wide = [tf.cast(j, tf.float64) for j in jacobian]
        products = tf.add_n([tf.matmul(j, j, transpose_b=True) for j in wide])
        members, p = products.shape[0], products.shape[1]
        before = Linearization(ranks, residuals, jacobian, products, products[:, 0], products[:, 0])
        gradient, terms = self.transposed_times(before, residuals), squared(residuals)
        here = tf.concat([tf.reshape(products, [members, -1]), gradient, terms], axis=1)
        parts = tf.split(ranks.sum(here), [p * p, p, terms.shape[1]], axis=1)
        matrix = tf.reshape(parts[0], products.shape)
        return Linearization(ranks, residuals, jacobian, matrix, parts[1], parts[2])

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> Tensor:
        """See `LinearSystem`; L [M, p, p] below the diagonal, zero where there is none."""
        if not can_call_on_host():
            return tf.linalg.cholesky(at.matrix + tf.linalg.diag(damping[:, None] * scale * scale))
        members, p = scale.shape
        given = [at.matrix, damping[:, None] * scale * scale]
        if at.ranks.rank != 0:
            return tf.zeros([members, p, p], tf.float64)
        return algebra_on_host(_factorize, given, [(members, p, p)], columns=p)[0]

    def solution(self, at: Linearization, factor: Tensor, right: Tensor) -> Tensor:
        if can_call_on_host():
            return found_by_first(at.ranks, _solve, [factor, right], right)
        return at.ranks.from_rank(tf.linalg.cholesky_solve(factor, right[:, :, None])[:, :, 0])


def _products(count: int, arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Multiply: (r_t, …, Jᵀ_t, …) -> the triangle of JᵀJ, Jᵀr, Σ r² of terms, a row a member."""
    residuals, jacobians = arguments[:count], arguments[count:]
    (out,) = results
    p = jacobians[0].shape[1]
    matrix, triangle = np.empty([p, p]), p * (p + 1) // 2
    for member, row in enumerate(out):
        gradient = row[triangle : triangle + p]
        for i, (r, j) in enumerate(zip(residuals, jacobians, strict=True)):
            lapack.gram(j[member], matrix, add=i > 0)
            lapack.times(j[member], r[member], gradient, add=i > 0)
            row[triangle + p + i] = r[member] @ r[member]
        lapack.pack(matrix, row[:triangle])


def _factorize(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Factorize: (triangle of JᵀJ, λ D²) -> L, a row a member; without a factor L[0, 0] is NaN."""
    packed, damping = arguments
    for triangle, added, factor in zip(packed, damping, results[0], strict=True):
        lapack.unpack(triangle, factor)
        diagonal = np.einsum("ii->i", factor)
        diagonal += added
        if not (np.isfinite(diagonal).all() and lapack.cholesky(factor)):
            factor[0, 0] = np.nan


def _solve(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    for factor, right, solution in zip(*arguments, results[0], strict=True):
        solution[...] = right
        if np.isnan(factor[0, 0]):
            solution[...] = np.nan
        else:
            lapack.solve_cholesky(factor, solution)
