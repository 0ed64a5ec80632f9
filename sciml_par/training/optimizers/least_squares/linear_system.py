"""What a Gauss–Newton method needs of the linear systems of its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Residuals, squared
from sciml_par.training.optimizers.optimizer import Batch, Objective

if TYPE_CHECKING:
    from sciml_par.training.loss.ranks import Ranks

Tensor = Any


class Linearization(NamedTuple):
    """r(θ + d) ≈ r + J d at θ, over all terms of the loss, as tensors.

    Attributes
    ----------
    ranks : those that share the loss.
    residuals : √w r of each term on this rank, [M, K_t].
    jacobian : Jᵀ of each term on this rank, [M, p, K_t]; none where the system forms no J.
    matrix : what the steps are solved with; the system's own.
    gradient : Jᵀ r, half of ∇L, over all ranks, [M, p], in double precision.
    terms : of the loss, over all ranks, [M, T], in double precision.
    """

    ranks: Ranks
    residuals: list[Tensor]
    jacobian: list[Tensor]
    matrix: Any
    gradient: Tensor
    terms: Tensor

    @classmethod
    def of(cls, ranks: Ranks, known: Any, jacobian: list[Tensor], matrix: Any, own: Tensor) -> Self:
        """Return it with sums over the ranks, of Jᵀ r of this rank's rows, too (collective)."""
        p = own.shape[1]
        both = ranks.sum(tf.concat([own, squared(known.residuals)], axis=1))
        return cls(ranks, known.residuals, jacobian, matrix, both[:, :p], both[:, p:])


class Search(NamedTuple):
    """How many step sizes were tried; the size, the loss there, and whether it has ended: [M]."""

    tried: Tensor
    size: Tensor
    loss: Tensor
    ended: Tensor


class LinearSystem(ABC):
    """Solves (JᵀJ + λ D²) d = Jᵀ v over the rows of all ranks, in double precision.

    All ranks find the same d, to the last bit.
    """

    @abstractmethod
    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        """Return the linearization at θ: [M, p] (collective)."""

    @abstractmethod
    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> Any:
        """Return the factor for systems with λ: [M] and D: [M, p] (collective)."""

    def solution(self, at: Linearization, factor: Any, right: Tensor) -> Tensor:
        """Return d for the right side Jᵀ v over all ranks, [M, p]; not finite if there is none."""
        raise NotImplementedError

    def solve_gradient(self, at: Linearization, factor: Any) -> Tensor:
        """Return d for v = r, [M, p]; not finite if no solution exists (collective)."""
        return self.solution(at, factor, at.gradient)

    def solve(self, at: Linearization, factor: Any, v: list[Tensor]) -> Tensor:
        """Return d for v of each term on this rank, [M, K_t] (collective)."""
        return self.solution(at, factor, at.ranks.sum(self.transposed_times(at, v)))

    def transposed_times(self, at: Linearization, v: list[Tensor]) -> Tensor:
        """Return Jᵀ v over this rank's rows: [M, K_t] -> [M, p], in double precision."""
        pairs = zip(at.jacobian, v, strict=True)
        parts = [tf.matmul(j, each[:, :, None])[:, :, 0] for j, each in pairs]
        return tf.cast(tf.add_n(parts), tf.float64)

    def along(self, at: Linearization, direction: Tensor) -> list[Tensor]:
        """Return J d of each term on this rank: [M, p] -> [M, K_t]."""
        row = tf.expand_dims(direction, 1)
        return [tf.matmul(tf.cast(row, j.dtype), j)[:, 0, :] for j in at.jacobian]

    def squared_column_norms(self, at: Linearization) -> Tensor:
        """Return the diagonal of JᵀJ, or an estimate of it, [M, p] (collective)."""
        squares = [tf.reduce_sum(tf.cast(j, tf.float64) ** 2, axis=2) for j in at.jacobian]
        return at.ranks.sum(tf.add_n(squares))


def loss_at(objective: Objective, parameters: Tensor, batch: Batch) -> Tensor:
    """Return L at θ: [M, p] over all ranks, [M], in double precision (collective)."""
    known = objective.evaluate(Residuals, parameters, batch)
    return tf.reduce_sum(objective.ranks.sum(squared(known.residuals)), axis=1)


def or_not_finite(change: Tensor, at: Linearization) -> Tensor:
    """Return θ's change: [M, p], NaN where the loss is finite and ∇L is not.

    So the member ends as with other optimizers. No trial succeeds there, which would otherwise read
    as if the loss could fall no further.
    """
    loss, gradient = tf.reduce_sum(at.terms, axis=1), at.gradient
    bad = tf.math.is_finite(loss) & ~tf.reduce_all(tf.math.is_finite(gradient), axis=1)
    return tf.where(bad[:, None], tf.constant(float("nan"), change.dtype), change)
