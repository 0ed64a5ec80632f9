"""Relative loss balancing with random lookback: weights by the decrease of each term."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from sciml_par._checks import (
    check_count,
    check_fraction,
    check_number,
    check_positive,
    checked_integer,
)
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


class Losses(NamedTuple):
    """Attributes: λ; the terms of the loss at the first change, and at the last; [M, T] each."""

    weights: Tensor
    first: Tensor
    last: Tensor


@dataclass(frozen=True)
class ReLoBRaLo(LossWeights):
    """Give the largest weights to the terms that have decreased the least.

        b_t(k; k') = T softmax_t [L_t(k) / (τ L_t(k'))]
        λ_t(k) = α [ρ λ_t(k−1) + (1 − ρ) b_t(k; 0)] + (1 − α) b_t(k; k−1)

    over T terms, with ρ drawn at random, 1 with a given probability and else 0 (Bischof and Kraus
    2021, arXiv:2110.09813, section 3, ReLoBRaLo). The sum of all λ is T. All members share the
    draws, which depend on the seed and the number of the step alone.

    Parameters
    ----------
    temperature : τ, positive, dimensionless: small ones make λ of one term T and the others 0.
    memory : α, in [0, 1), dimensionless.
    lookback : the probability of ρ = 1, in [0, 1]; else the losses are compared with the first.
    seed : of the draws, an integer ≥ 0.
    every : λ changes every `every` steps.
    """

    _: KW_ONLY
    temperature: float = 0.1
    memory: float = 0.999
    lookback: float = 0.999
    seed: int = 0
    every: int = 1

    def __post_init__(self) -> None:
        check_positive("ReLoBRaLo", temperature=self.temperature)
        check_fraction("ReLoBRaLo", memory=self.memory)
        check_number("ReLoBRaLo", "lookback", self.lookback, "in [0, 1]", lambda v: 0 <= v <= 1)
        checked_integer(self.seed, "ReLoBRaLo: seed", least=0)
        check_count("ReLoBRaLo", "every", self.every)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        ones = ones_of_terms(terms, members, dtype)
        return WeightState(Losses(ones, tf.zeros_like(ones), tf.zeros_like(ones)))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        before: Losses = state.of_terms
        now = loss.values
        # At the first change there is nothing to compare with but the loss itself.
        new = tf.reduce_all(before.first == 0, axis=1, keepdims=True)
        first, last = tf.where(new, now, before.first), tf.where(new, now, before.last)
        draw = tf.random.stateless_uniform([], [self.seed, number], dtype=now.dtype, alg="philox")
        kept = tf.where(draw < self.lookback, before.weights, self._balance(now, first))
        weights = self.memory * kept + (1 - self.memory) * self._balance(now, last)
        return WeightState(Losses(weights, first, now))

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        return tf.unstack(state.of_terms.weights, axis=1)

    def _balance(self, now: Tensor, then: Tensor) -> Tensor:
        """Return b, [M, T]."""
        scaled = self.temperature * then
        ratio = where_positive(scaled, lambda divisor: now / divisor, tf.zeros_like(now))
        return now.shape[1] * tf.nn.softmax(ratio, axis=1)
