"""Weights with which all terms have gradients of one norm."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_count, check_fraction
from sciml_par._tensorflow import tf
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    TermsOfLoss,
    WeightState,
    ones_of_terms,
    where_positive,
)

Tensor = Any


@dataclass(frozen=True)
class GradientNorm(LossWeights):
    """Terms that all have gradients of the same norm.

        λ̂_t = Σ_s ‖∇L_s‖ / ‖∇L_t‖        λ_t ← m λ_t + (1 − m) λ̂_t

    over all terms s, equations and conditions (Wang, Sankaran, Wang and Perdikaris 2023,
    arXiv:2308.08468, algorithm 1, where m is called α). The weights of residuals and conditions
    themselves, which L_t has, cancel, but for a common factor.

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes at every so many steps; the paper has 1000.
    """

    _: KW_ONLY
    memory: float = 0.9
    every: int = 100

    def __post_init__(self) -> None:
        check_fraction("GradientNorm", memory=self.memory)
        check_count("GradientNorm", "every", self.every)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """See `LossWeights`."""
        return WeightState(ones_of_terms(terms, members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """See `LossWeights`."""
        norms = tf.norm(loss.gradients(), axis=2)
        total = tf.reduce_sum(norms, axis=1, keepdims=True)
        now = where_positive(norms, lambda norm: total / norm, state.of_terms)
        return WeightState(self.memory * state.of_terms + (1 - self.memory) * now)
