"""The linear systems of Gauss–Newton steps without the Jacobian matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import LinearMap
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host, found_by_first
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]


class _Matrix(NamedTuple):
    """Attributes: J; B of JᵀJ ≈ B Bᵀ, [M, p, k]; the type of θ."""

    jacobian: LinearMap
    root: Tensor
    dtype: Any


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
        ranks, jacobian = objective.ranks, objective.evaluate(LinearMap, parameters, batch)
        back = tf.cast(jacobian.transposed_times(jacobian.residuals), tf.float64)
        matrix = _Matrix(jacobian, self._root(ranks, jacobian, parameters), parameters.dtype)
        return Linearization.of(ranks, jacobian, [], matrix, back)

    def along(self, at: Linearization, direction: Tensor) -> list[Tensor]:
        return at.matrix.jacobian.times(tf.cast(direction, at.matrix.dtype))

    def squared_column_norms(self, at: Linearization) -> Tensor:
        """Return the diagonal of the Nyström approximation, which is at most that of JᵀJ."""
        return tf.reduce_sum(at.matrix.root**2, axis=2)

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> _Factor:
        root = at.matrix.root
        members, _, k = root.shape
        scaled = root / scale[:, :, None]
        shapes = [tuple(root.shape), (members, k)]
        vectors, values = algebra_on_host(_singular, [scaled], shapes, columns=k)
        return _Factor(vectors, values, damping, scale)

    def transposed_times(self, at: Linearization, v: list[Tensor]) -> Tensor:
        return tf.cast(at.matrix.jacobian.transposed_times(v), tf.float64)

    def _root(self, ranks: Ranks, jacobian: LinearMap, parameters: Tensor) -> Tensor:
        """Return B: [M, p, k] of JᵀJ ≈ B Bᵀ, the same on all ranks (collective)."""
        members, p = parameters.shape
        k = min(self.rank, p)
        # Of the same signs on all ranks; as a constant it would be a large part of the program.
        signs = tf.random.stateless_uniform([p, k], [0, 0], 0, 2, tf.int32, alg="philox")
        test = tf.cast(2 * signs - 1, tf.float64)

        def column(omega: Tensor) -> Tensor:
            direction = tf.tile(omega[None], [members, 1])
            return _products(jacobian, direction, parameters.dtype)

        here = tf.transpose(tf.map_fn(column, tf.transpose(test)), [1, 2, 0])
        sketch = ranks.sum(here)
        given = [sketch, tf.tile(test[None], [members, 1, 1])]
        return found_by_first(ranks, _nystrom, given, sketch)

    def solution(self, at: Linearization, factor: _Factor, right: Tensor) -> Tensor:
        """Solve by preconditioned conjugate gradients: [M, p] (collective)."""
        matrix, scale = at.matrix, factor.scale
        first = 1.0 if at.ranks.rank == 0 else 0.0
        begin = right / scale
        limit = self.tolerance**2 * _squares(begin)

        def go_on(now: _Iteration) -> Tensor:
            return (now.done < self.iterations) & tf.reduce_any(now.open)

        def iterate(now: _Iteration) -> tuple[_Iteration]:
            towards = now.direction / scale
            here = _products(matrix.jacobian, towards, matrix.dtype) / scale
            # The first rank's view of what is left decides for all, so that none waits for others
            # who have ended.
            left = first * tf.stack([_squares(now.residual), limit], axis=1)
            sums = at.ranks.sum(tf.concat([here, left], axis=1))
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
        return at.ranks.from_rank(found)


def _products(jacobian: LinearMap, direction: Tensor, dtype: Any) -> Tensor:
    """Return JᵀJ d over this rank's rows: [M, p] -> [M, p]."""
    return tf.cast(jacobian.normal_times(tf.cast(direction, dtype)), tf.float64)


def _preconditioned(factor: _Factor, x: Tensor) -> Tensor:
    damping = factor.damping[:, None]
    weights = (factor.values[:, -1:] + damping) / (factor.values + damping) - 1
    inside = weights * tf.linalg.matvec(factor.vectors, x, transpose_a=True)
    return x + tf.linalg.matvec(factor.vectors, inside)


def _nystrom(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Compute Y = JᵀJ Ω, Ω -> B with B Bᵀ = Y (Ωᵀ Y)⁺ Yᵀ; not finite where Y is not."""
    for sketch, test, root in zip(*arguments, results[0], strict=True):
        root[...] = np.nan
        if np.isfinite(sketch).all():
            core = test.T @ sketch
            values, vectors = np.linalg.eigh((core + core.T) / 2)
            # Smaller ones are rounding, of both signs.
            kept = values > 10 * np.finfo(float).eps * max(values[-1], 0.0)
            roots = np.where(kept, np.sqrt(np.where(kept, values, 1.0)), np.inf)
            root[...] = sketch @ (vectors / roots)


def _singular(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Compute D⁻¹ B -> U, Λ, the largest first."""
    for root, vectors, values in zip(*arguments, *results, strict=True):
        vectors[...] = values[...] = np.nan
        if np.isfinite(root).all():
            vectors[...], found, _ = np.linalg.svd(root, full_matrices=False)
            values[...] = found**2


def _squares(x: Tensor) -> Tensor:
    return tf.reduce_sum(x**2, axis=1)


def _inner(x: Tensor, y: Tensor) -> Tensor:
    return tf.reduce_sum(x * y, axis=1)
