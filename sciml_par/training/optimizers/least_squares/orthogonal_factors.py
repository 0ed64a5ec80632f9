"""The damped least-squares problem of a Gauss–Newton step, by orthogonal factors of J."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Jacobian
from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host, found_by_first
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]


class OrthogonalFactors(LinearSystem):
    """min |J d − r|² + λ |D d|² by QR factors, which do not square the condition of J.

    Each rank factorizes its rows, [J r] = Q R. The triangles R of all ranks are gathered, and the
    first rank joins them two by two (Demmel, Grigori, Hoemmen and Langou 2012, SIAM J. Sci.
    Comput. 34(1)), then joins the result with √λ D for each λ. For v = r the solution is that of
    R d = Qᵀ r, with r carried along as one more column. For another v it is d = R⁻¹ R⁻ᵀ Jᵀ v, the
    semi-normal equations (Björck 1987, Linear Algebra Appl. 88/89).

    The memory is that of P p² / 2 numbers on each of P ranks, and of a second J.
    """

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        known = objective.evaluate(Jacobian, parameters, batch)
        ranks, members, p = objective.ranks, parameters.shape[0], known.jacobian[0].shape[1]
        r = tf.cast(tf.concat(known.residuals, axis=1), tf.float64)
        rows = tf.cast(tf.concat(known.jacobian, axis=2), tf.float64)
        columns = tf.concat([rows, r[:, None]], axis=1)
        size = (p + 1) * (p + 2) // 2
        here = algebra_on_host(_factors, [columns], [(members, size)], columns=p)[0]
        everyone = ranks.from_every_rank(here)
        if ranks.rank == 0 and ranks.size > 1:
            here = algebra_on_host(_joined, [everyone], [(members, size)], columns=p)[0]
        return Linearization.of(ranks, known, known.jacobian, here, tf.linalg.matvec(rows, r))

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> Tensor:
        """See `LinearSystem`; Rᵀ of [R r; √λ D 0], [M, p + 1, p + 1]."""
        members, p = scale.shape
        shape = (members, p + 1, p + 1)
        if at.ranks.rank != 0:
            return tf.zeros([members, 0, 0], tf.float64)
        added = tf.pad(tf.sqrt(damping)[:, None] * scale, [[0, 0], [0, 1]])
        return algebra_on_host(_damped, [at.matrix, added], [shape], columns=p)[0]

    def solve_gradient(self, at: Linearization, factor: Tensor) -> Tensor:
        return found_by_first(at.ranks, _solve_last, [factor], at.gradient)

    def solution(self, at: Linearization, factor: Tensor, right: Tensor) -> Tensor:
        return found_by_first(at.ranks, _solve_any, [factor, right], right)


def _factors(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    (columns,) = arguments
    k = columns.shape[1]
    factor = np.empty([k, k])
    for each, packed in zip(columns, results[0], strict=True):
        lapack.triangular_factor(each.copy(), factor)
        lapack.pack(factor, packed)


def _joined(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    (everyone,) = arguments  # [P, M, k (k + 1) / 2]
    for member, packed in enumerate(results[0]):
        factor = unpacked(everyone[0, member])
        for other in everyone[1:, member]:
            lapack.join_triangular_factors(factor, unpacked(other))
        lapack.pack(factor, packed)


def _damped(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    for packed, damping, factor in zip(*arguments, results[0], strict=True):
        factor[...] = unpacked(packed)
        if np.isfinite(factor).all() and np.isfinite(damping).all():
            lapack.join_triangular_factors(factor, np.diag(damping))
        else:
            factor[...] = np.nan


def unpacked(packed: Array) -> Array:
    """Return the lower triangle [k, k] of its numbers [k (k + 1) / 2]."""
    k = (math.isqrt(8 * len(packed) + 1) - 1) // 2
    factor = np.zeros([k, k])
    lapack.unpack(packed, factor)
    return factor


def _solve_last(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    for factor, solution in zip(arguments[0], results[0], strict=True):
        solution[...] = factor[-1, :-1]
        _divide(factor, solution, transposed=True)


def _solve_any(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    for factor, right, solution in zip(*arguments, results[0], strict=True):
        solution[...] = right
        _divide(factor, solution, transposed=False)
        _divide(factor, solution, transposed=True)


def _divide(factor: Array, vector: Array, *, transposed: bool) -> None:
    lapack.solve_lower(factor, vector, transposed=transposed)
    if not np.diagonal(factor)[:-1].all():
        vector[...] = np.nan
