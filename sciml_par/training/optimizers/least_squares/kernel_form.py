"""Gauss–Newton steps by a matrix of as many rows as there are residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.execution.host_function import can_call_on_host
from sciml_par.parallel.requests.request import even_rows
from sciml_par.training.loss.known import Jacobian
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.normal_equations import NormalEquations
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]


class _Factor(NamedTuple):
    """Attributes: that of the N equations; D: [M, p]."""

    cholesky: Tensor
    scale: Tensor


@dataclass(frozen=True)
class KernelForm(LinearSystem):
    """d = D⁻² Jᵀ (J D⁻² Jᵀ + λ I)⁻¹ v, which solves (JᵀJ + λ D²) d = Jᵀ v.

    The matrix has N rows, as many as there are residuals on all ranks, so that this is for N < p.
    The ranks exchange rows of J for columns: each has then all N residuals' derivatives by p/P of
    the parameters, whatever the number of its points, and multiplies them. One allreduce adds the
    lower triangles. The first rank factorizes and solves, and the others take its solution.

    A rank holds its K rows of J, K p numbers, the N p/P numbers of its columns, and up to 2 N² of
    matrices.

    Parameters
    ----------
    residuals_of_ranks : how many residuals each rank has, [P].
    scaled : whether D may differ from 1. The product is then made anew for each factorization.

    References
    ----------
    Chen and Heyl (2024), arXiv:2302.01941; Guzmán-Cordero et al. (2025), arXiv:2505.12149.
    """

    residuals_of_ranks: tuple[int, ...]
    scaled: bool

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        known = objective.evaluate(Jacobian, parameters, batch)
        here = [tf.cast(r, tf.float64) for r in known.residuals]
        slopes = tf.concat([tf.cast(j, tf.float64) for j in known.jacobian], axis=2)
        gradient = _product(slopes, tf.concat(here, axis=1))
        columns = self._columns(objective.ranks, slopes)
        matrix = columns if self.scaled else _kernel(objective.ranks, columns)
        return Linearization.of(objective.ranks, known, known.jacobian, matrix, gradient)

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> _Factor:
        """See `LinearSystem`; collective where `scaled`."""
        matrix = at.matrix
        if self.scaled:
            parameters = even_rows(scale.shape[1], len(self.residuals_of_ranks))
            own = tf.split(scale, parameters, axis=1)[at.ranks.rank]  # of D: [M, p_r]
            matrix = _kernel(at.ranks, at.matrix / own[:, None, :])
        ones = tf.ones([scale.shape[0], sum(self.residuals_of_ranks)], tf.float64)
        equations = at._replace(matrix=matrix)
        return _Factor(NormalEquations().factorize(equations, damping, ones), scale)

    def solve_gradient(self, at: Linearization, factor: Tensor) -> Tensor:
        return self.solve(at, factor, at.residuals)

    def solve(self, at: Linearization, factor: Tensor, v: list[Tensor]) -> Tensor:
        here = tf.concat([tf.cast(each, tf.float64) for each in v], axis=1)
        right = tf.transpose(at.ranks.gather(tf.transpose(here), self.residuals_of_ranks))
        whole = NormalEquations().solution(at, factor.cholesky, right)
        own = tf.split(whole, self.residuals_of_ranks, axis=1)[at.ranks.rank]
        slopes = tf.concat([tf.cast(j, tf.float64) for j in at.jacobian], axis=2)
        found = at.ranks.sum(_product(slopes, own))
        return found / factor.scale**2 if self.scaled else found

    def _columns(self, ranks: Ranks, slopes: Tensor) -> Tensor:
        """Exchange Jᵀ of own rows, [M, p, K], for J of all rows by own parameters, [M, N, p_r]."""
        members, p, count = slopes.shape
        parameters = even_rows(p, len(self.residuals_of_ranks))
        own = parameters[ranks.rank]
        received = [own * members * each for each in self.residuals_of_ranks]
        flat = ranks.exchange(
            tf.reshape(tf.transpose(slopes, [1, 0, 2]), [-1]),
            [each * members * count for each in parameters],
            received,
        )
        parts = [
            tf.reshape(part, [own, members, each])
            for part, each in zip(tf.split(flat, received), self.residuals_of_ranks, strict=True)
        ]
        return tf.transpose(tf.concat(parts, axis=2), [1, 2, 0])


def _product(slopes: Tensor, v: Tensor) -> Tensor:
    """Return Jᵀ v: [M, p, K], [M, K] -> [M, p]."""
    return tf.matmul(slopes, v[:, :, None])[:, :, 0]


def _kernel(ranks: Ranks, columns: Tensor) -> Tensor:
    """Return J Jᵀ over all parameters, [M, N, p_r], packed as in `NormalEquations` (collective)."""
    members, rows, _ = columns.shape
    if not can_call_on_host():
        return ranks.sum(tf.matmul(columns, columns, transpose_b=True))
    shape = (members, rows * (rows + 1) // 2)
    return ranks.sum(algebra_on_host(_gram, [columns], [shape], columns=rows)[0])


def _gram(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    (columns,), (out,) = arguments, results
    rows = columns.shape[1]
    matrix = np.empty([rows, rows])
    for member, triangle in zip(columns, out, strict=True):
        lapack.gram(member, matrix, add=False)
        lapack.pack(matrix, triangle)
