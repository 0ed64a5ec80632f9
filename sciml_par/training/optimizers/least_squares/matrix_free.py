"""The linear systems of Gauss–Newton steps without the Jacobian matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]


class _Matrix(NamedTuple):
    """Attributes: where J is, θ [M, p] and the batch; B of JᵀJ ≈ B Bᵀ, [M, p, k]."""

    parameters: Tensor
    batch: Batch
    root: Tensor


class _Factor(NamedTuple):
    """The preconditioner: Bᵀ D⁻¹ = S Uᵀ with S² = Λ, as U [M, p, k], Λ [M, k]; λ, D."""

    vectors: Tensor
    values: Tensor
    damping: Tensor
    scale: Tensor


class _Iteration(NamedTuple):
    """Of conjugate gradients, each with the members as first axis."""

    done: Tensor
    solution: Tensor
    residual: Tensor
    direction: Tensor
    inner: Tensor
    open: Tensor


@dataclass(frozen=True)
class MatrixFree(LinearSystem):
    """(JᵀJ + λ D²) d = Jᵀ v by conjugate gradients on products J d and Jᵀ v.

    J is never formed: Jᵀ v is a reverse pass through the residuals, and J d two. A solution is

        e ≈ (D⁻¹ JᵀJ D⁻¹ + λ)⁻¹ D⁻¹ Jᵀ v          d = D⁻¹ e

    preconditioned by a randomized Nyström approximation (Frangella, Tropp and Udell 2023, SIAM J.
    Matrix Anal. Appl. 44(2)): for Ω: [p, k] of random signs, JᵀJ ≈ Y (Ωᵀ Y)⁺ Yᵀ with Y = JᵀJ Ω,
    and of that scaled by D the eigenvectors U and eigenvalues Λ,

        P⁻¹ x = U ((Λ_k + λ) / (Λ + λ) − 1) Uᵀ x + x

    The spectra of residuals' Jacobians fall fast, so that few eigenvectors leave little to do.

    Each product is summed over the ranks. Whether to go on is decided by what the first rank finds,
    which travels with the products; and its solution is given to all.
    """

    rank: int = 100
    iterations: int = 100
    tolerance: float = 1e-3

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        """See `LinearSystem`."""
        residuals = objective.residuals(parameters, batch)
        back = tf.cast(objective.transposed_times(parameters, batch, residuals), tf.float64)
        squares = [tf.reduce_sum(tf.cast(r, tf.float64) ** 2, axis=1) for r in residuals]
        here = tf.concat([back, tf.stack(squares, axis=1)], axis=1)
        whole = objective.sum_over_ranks(here)
        p = parameters.shape[1]
        matrix = _Matrix(parameters, batch, self._root(objective, parameters, batch))
        return Linearization(residuals, [], matrix, whole[:, :p], whole[:, p:])

    def along(self, objective: Objective, at: Linearization, direction: Tensor) -> list[Tensor]:
        """See `LinearSystem`."""
        theta = at.matrix.parameters
        return objective.jacobian_times(theta, at.matrix.batch, tf.cast(direction, theta.dtype))

    def squared_column_norms(self, objective: Objective, at: Linearization) -> Tensor:
        """Return the diagonal of the Nyström approximation, which is at most that of JᵀJ."""
        return tf.reduce_sum(at.matrix.root**2, axis=2)

    def factorize(
        self, objective: Objective, at: Linearization, damping: Tensor, scale: Tensor
    ) -> _Factor:
        """See `LinearSystem`."""
        root = at.matrix.root
        members, _, k = root.shape
        scaled = root / scale[:, :, None]
        shapes = [tuple(root.shape), (members, k)]
        vectors, values = algebra_on_host(_singular, [scaled], shapes, columns=k)
        return _Factor(vectors, values, damping, scale)

    def solve_gradient(self, objective: Objective, at: Linearization, factor: _Factor) -> Tensor:
        """See `LinearSystem`."""
        return self._solution(objective, at, factor, at.gradient)

    def solve(
        self, objective: Objective, at: Linearization, factor: _Factor, v: list[Tensor]
    ) -> Tensor:
        """See `LinearSystem`."""
        back = objective.transposed_times(at.matrix.parameters, at.matrix.batch, v)
        right = objective.sum_over_ranks(tf.cast(back, tf.float64))
        return self._solution(objective, at, factor, right)

    def _root(self, objective: Objective, parameters: Tensor, batch: Batch) -> Tensor:
        """B: [M, p, k] of JᵀJ ≈ B Bᵀ, the same on all ranks (collective)."""
        members, p = parameters.shape
        k = min(self.rank, p)
        # Of the same signs on all ranks; as a constant it would be a large part of the program.
        signs = tf.random.stateless_uniform([p, k], [0, 0], 0, 2, tf.int32, alg="philox")
        test = tf.cast(2 * signs - 1, tf.float64)

        def column(omega: Tensor) -> Tensor:
            direction = tf.tile(omega[None], [members, 1])
            return _products(objective, parameters, batch, direction)

        here = tf.transpose(tf.map_fn(column, tf.transpose(test)), [1, 2, 0])
        sketch = objective.sum_over_ranks(here)
        root = sketch
        if objective.on_first_rank:
            given = [sketch, tf.tile(test[None], [members, 1, 1])]
            root = algebra_on_host(_nystrom, given, [(members, p, k)], columns=k)[0]
        return objective.from_first_rank(root)

    def _solution(
        self, objective: Objective, at: Linearization, factor: _Factor, right: Tensor
    ) -> Tensor:
        """By preconditioned conjugate gradients: [M, p] (collective)."""
        matrix, scale = at.matrix, factor.scale
        first = 1.0 if objective.on_first_rank else 0.0
        begin = right / scale
        limit = self.tolerance**2 * _squares(begin)

        def go_on(now: _Iteration) -> Tensor:
            return (now.done < self.iterations) & tf.reduce_any(now.open)

        def iterate(now: _Iteration) -> tuple[_Iteration]:
            towards = now.direction / scale
            here = _products(objective, matrix.parameters, matrix.batch, towards) / scale
            # The first rank's view of what is left decides for all, so that none waits for others
            # who have ended.
            left = first * tf.stack([_squares(now.residual), limit], axis=1)
            sums = objective.sum_over_ranks(tf.concat([here, left], axis=1))
            open_ = now.open & (sums[:, -2] > sums[:, -1])
            product = sums[:, :-2] + factor.damping[:, None] * now.direction
            length = tf.math.divide_no_nan(now.inner, _inner(now.direction, product))
            solution = now.solution + length[:, None] * now.direction
            residual = now.residual - length[:, None] * product
            better = _preconditioned(factor, residual)
            inner = _inner(residual, better)
            ratio = tf.math.divide_no_nan(inner, now.inner)
            direction = better + ratio[:, None] * now.direction

            def chosen(after: Tensor, before: Tensor) -> Tensor:
                return tf.where(open_[:, None], after, before)

            return (
                _Iteration(
                    now.done + 1,
                    chosen(solution, now.solution),
                    chosen(residual, now.residual),
                    chosen(direction, now.direction),
                    tf.where(open_, inner, now.inner),
                    open_,
                ),
            )

        better = _preconditioned(factor, begin)
        start = _Iteration(
            tf.constant(0),
            tf.zeros_like(begin),
            begin,
            better,
            _inner(begin, better),
            tf.ones([begin.shape[0]], tf.bool),
        )
        (end,) = tf.while_loop(go_on, iterate, (start,))
        # A right side or an approximation that is not finite has no solution.
        finite = tf.math.is_finite(_inner(begin, better))
        found = tf.where(finite[:, None], end.solution / scale, np.nan)
        return objective.from_first_rank(found)


def _products(objective: Objective, theta: Tensor, batch: Batch, direction: Tensor) -> Tensor:
    """JᵀJ d over this rank's rows: [M, p] -> [M, p]."""
    found = objective.normal_times(theta, batch, tf.cast(direction, theta.dtype))
    return tf.cast(found, tf.float64)


def _preconditioned(factor: _Factor, x: Tensor) -> Tensor:
    damping = factor.damping[:, None]
    weights = (factor.values[:, -1:] + damping) / (factor.values + damping) - 1
    inside = weights * tf.linalg.matvec(factor.vectors, x, transpose_a=True)
    return x + tf.linalg.matvec(factor.vectors, inside)


def _nystrom(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Y = JᵀJ Ω, Ω -> B with B Bᵀ = Y (Ωᵀ Y)⁺ Yᵀ; not finite where Y is not."""
    for sketch, test, root in zip(*arguments, results[0], strict=True):
        root[...] = np.nan
        if np.isfinite(sketch).all():
            core = test.T @ sketch
            values, vectors = np.linalg.eigh((core + core.T) / 2)
            # What is smaller is rounding, of both signs.
            kept = values > 10 * np.finfo(float).eps * max(values[-1], 0.0)
            roots = np.where(kept, np.sqrt(np.where(kept, values, 1.0)), np.inf)
            root[...] = sketch @ (vectors / roots)


def _singular(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """D⁻¹ B -> U, Λ, the largest first."""
    for root, vectors, values in zip(*arguments, *results, strict=True):
        vectors[...] = values[...] = np.nan
        if np.isfinite(root).all():
            vectors[...], found, _ = np.linalg.svd(root, full_matrices=False)
            values[...] = found**2


def _squares(x: Tensor) -> Tensor:
    return tf.reduce_sum(x**2, axis=1)


def _inner(x: Tensor, y: Tensor) -> Tensor:
    return tf.reduce_sum(x * y, axis=1)
