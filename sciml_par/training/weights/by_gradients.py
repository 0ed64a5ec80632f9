"""Weights of terms from their gradients: annealing, equal norms, neural tangent kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

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
class _Averaged(LossWeights):
    """λ ← m λ + (1 − m) λ̂, with λ̂ from the gradients at every change."""

    _: KW_ONLY
    memory: float
    every: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_fraction(name, memory=self.memory)
        check_count(name, "every", self.every)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        return WeightState(ones_of_terms(terms, members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        now = self._weights_now(state.of_terms, loss)
        return WeightState(self.memory * state.of_terms + (1 - self.memory) * now)

    @abstractmethod
    def _weights_now(self, weights: Tensor, loss: LossAt) -> Tensor:
        """Return λ̂, [M, T], where the weights have been λ so far (collective)."""


@dataclass(frozen=True)
class GradientAnnealing(_Averaged):
    """Conditions whose gradients are as large as those of the equations.

        λ̂_t = max_j |∂L_r/∂θ_j| / mean_j |∂(λ_t L_t)/∂θ_j|        λ_t ← m λ_t + (1 − m) λ̂_t

    for conditions t, with L_r the sum of the equations' terms and λ = 1 for these (Wang, Teng and
    Perdikaris 2021, arXiv:2001.04536, algorithm 1, where 1 − m is called α; the gradient below the
    line is that of the weighted term, as in the authors' program).

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes every `every` steps.
    """

    _: KW_ONLY
    memory: float = 0.9
    every: int = 10

    def check(self, terms: TermsOfLoss) -> None:
        if terms.count == terms.equations:
            raise InputError(
                "GradientAnnealing: the problem has no conditions to weigh against equations. Use "
                "GradientNorm() or NTKWeights() for several equations."
            )

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        after = super().update(state, loss, number).of_terms
        conditions = tf.range(loss.terms.count) >= loss.terms.equations
        return WeightState(tf.where(conditions, after, state.of_terms))

    def _weights_now(self, weights: Tensor, loss: LossAt) -> Tensor:
        gradients = loss.gradients()
        whole = tf.reduce_sum(gradients[:, : loss.terms.equations], axis=1)
        largest = tf.reduce_max(tf.abs(whole), axis=1, keepdims=True)
        means = weights * tf.reduce_mean(tf.abs(gradients), axis=2)
        return where_positive(means, lambda mean: largest / mean, weights)


@dataclass(frozen=True)
class GradientNorm(_Averaged):
    """Terms that all have gradients of the same norm.

        λ̂_t = Σ_s ‖∇L_s‖ / ‖∇L_t‖        λ_t ← m λ_t + (1 − m) λ̂_t

    over all terms s, equations and conditions (Wang, Sankaran, Wang and Perdikaris 2023,
    arXiv:2308.08468, algorithm 1, where m is called α). The weights of residuals and conditions
    themselves, which L_t has, cancel, but for a common factor.

    Parameters
    ----------
    memory : m, in [0, 1), dimensionless.
    every : λ changes every `every` steps; the paper has 1000.
    """

    _: KW_ONLY
    memory: float = 0.9
    every: int = 100

    def _weights_now(self, weights: Tensor, loss: LossAt) -> Tensor:
        norms = tf.norm(loss.gradients(), axis=2)
        total = tf.reduce_sum(norms, axis=1, keepdims=True)
        return where_positive(norms, lambda norm: total / norm, weights)


@dataclass(frozen=True)
class NTKWeights(_Averaged):
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
    every : λ changes every `every` steps. A change costs the derivatives of all residuals by all
        parameters, and memory for them on each rank: its own residuals times parameters.
    """

    needs_jacobian: ClassVar[bool] = True

    _: KW_ONLY
    memory: float = 0.0
    every: int = 100

    def _weights_now(self, weights: Tensor, loss: LossAt) -> Tensor:
        traces = loss.kernel_traces()
        total = tf.reduce_sum(traces, axis=1, keepdims=True)
        return where_positive(traces, lambda trace: total / trace, weights)
