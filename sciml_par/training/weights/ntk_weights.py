"""Weights with which all terms converge at one rate, by the neural tangent kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

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
class NTKWeights(LossWeights):
    """Terms whose residuals decrease at the same mean rate under gradient descent.

        λ̂_t = tr K / tr K_tt        λ_t ← m λ_t + (1 − m) λ̂_t

    with K_tt = J_t J_tᵀ the neural tangent kernel of term t and tr K = Σ_t tr K_tt (Wang, Yu and
    Perdikaris 2022, arXiv:2007.14527, algorithm 1, which has m = 0). The traces are computed,
    not estimated: tr K_tt = Σ_i ‖∂ρ_i/∂θ‖² over the points of all ranks, with
    ρ = √(w/N) r what the loss sums the squares of. So they are means over points, where the paper
    has sums, and do not depend on how many points a term has.

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes at every so many steps. A change costs the derivatives of all residuals by all
        parameters, and memory for them on each rank: its own residuals times parameters.
    """

    needs_jacobian: ClassVar[bool] = True

    _: KW_ONLY
    memory: float = 0.0
    every: int = 100

    def __post_init__(self) -> None:
        check_fraction("NTKWeights", memory=self.memory)
        check_count("NTKWeights", "every", self.every)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """See `LossWeights`."""
        return WeightState(ones_of_terms(terms, members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """See `LossWeights`."""
        traces = loss.kernel_traces()
        total = tf.reduce_sum(traces, axis=1, keepdims=True)
        now = where_positive(traces, lambda trace: total / trace, state.of_terms)
        return WeightState(self.memory * state.of_terms + (1 - self.memory) * now)
