"""Weights of conditions from the sizes of gradients: learning-rate annealing."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_count, check_fraction
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
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
class GradientAnnealing(LossWeights):
    """Conditions whose gradients are as large as those of the equations.

        λ̂_t = max_j |∂L_r/∂θ_j| / mean_j |∂(λ_t L_t)/∂θ_j|        λ_t ← m λ_t + (1 − m) λ̂_t

    for conditions t, with L_r the sum of the equations' terms and λ = 1 for these (Wang, Teng and
    Perdikaris 2021, arXiv:2001.04536, algorithm 1, where 1 − m is called α; the gradient below the
    line is that of the weighted term, as in the authors' program).

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes at every so many steps.
    """

    _: KW_ONLY
    memory: float = 0.9
    every: int = 10

    def __post_init__(self) -> None:
        check_fraction("GradientAnnealing", memory=self.memory)
        check_count("GradientAnnealing", "every", self.every)

    def check(self, terms: TermsOfLoss) -> None:
        """See `LossWeights`.

        Raises
        ------
        InputError
            The problem has no conditions to weigh.
        """
        if terms.count == terms.equations:
            raise InputError(
                "GradientAnnealing: it weighs conditions against equations, and the problem has no "
                "conditions. Several equations are weighed by GradientNorm() or NTKWeights()."
            )

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """See `LossWeights`."""
        return WeightState(ones_of_terms(terms, members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """See `LossWeights`."""
        gradients, equations = loss.gradients(), loss.terms.equations
        whole = tf.reduce_sum(gradients[:, :equations], axis=1)
        largest = tf.reduce_max(tf.abs(whole), axis=1, keepdims=True)
        means = state.of_terms * tf.reduce_mean(tf.abs(gradients), axis=2)
        now = where_positive(means, lambda mean: largest / mean, state.of_terms)
        mixed = self.memory * state.of_terms + (1 - self.memory) * now
        conditions = tf.range(loss.terms.count) >= equations
        return WeightState(tf.where(conditions, mixed, state.of_terms))
