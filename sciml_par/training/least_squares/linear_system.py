"""What a Gauss–Newton method needs of the linear systems of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from sciml_par._tensorflow import tf
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any


class Linearization(NamedTuple):
    """r(θ + d) ≈ r + J d at θ, over all terms of the loss, as tensors.

    Attributes
    ----------
    residuals : √w r of each term on this rank, [M, K_t].
    jacobian : Jᵀ of each term on this rank, [M, p, K_t].
    matrix : what the steps are solved with; the method's own.
    gradient : Jᵀ r, half of ∇L, over all ranks, [M, p], in double precision.
    terms : of the loss, over all ranks, [M, T], in double precision.
    """

    residuals: list[Tensor]
    jacobian: list[Tensor]
    matrix: Tensor
    gradient: Tensor
    terms: Tensor


class LinearSystem(Protocol):
    """Solves (JᵀJ + λ D²) d = Jᵀ v over the rows of all ranks, in double precision."""

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        """At θ: [M, p] (collective)."""

    def factorize(
        self, objective: Objective, at: Linearization, damping: Tensor, scale: Tensor
    ) -> Tensor:
        """What systems with λ: [M] and D: [M, p] are solved with (local)."""

    def solve_gradient(self, objective: Objective, at: Linearization, factor: Tensor) -> Tensor:
        """d for v = r, [M, p]; not finite where there is no solution (collective)."""

    def solve(
        self, objective: Objective, at: Linearization, factor: Tensor, v: list[Tensor]
    ) -> Tensor:
        """d for v of each term on this rank, [M, K_t] (collective)."""


def along(at: Linearization, direction: Tensor) -> list[Tensor]:
    """J d of each term on this rank: [M, p] -> [M, K_t] (local)."""
    return [tf.matmul(tf.cast(direction, j.dtype)[:, None, :], j)[:, 0, :] for j in at.jacobian]


def transposed(at: Linearization, v: list[Tensor]) -> Tensor:
    """Jᵀ v over this rank's rows: [M, K_t] -> [M, p], in double precision (local)."""
    parts = [
        tf.matmul(j, each[:, :, None])[:, :, 0] for j, each in zip(at.jacobian, v, strict=True)
    ]
    return tf.cast(tf.add_n(parts), tf.float64)
