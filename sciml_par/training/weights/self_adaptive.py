"""Weights of points that are trained against the network: self-adaptive weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sciml_par._checks import check_count, check_positive
from sciml_par._tensorflow import tf
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    TermsOfLoss,
    WeightState,
    checked_names,
    chosen_terms,
)

Tensor = Any

_BETA_1, _BETA_2, _EPSILON = 0.99, 0.999, 1e-7


@dataclass(frozen=True)
class SelfAdaptive(LossWeights):
    """Points whose weights grow as long as their residuals are not zero.

        L_λ = Σ_t (w_t/N_t) Σ_i m(a_ti) |r_t(x_i)|²,    m(a) = a^q
        g_ti = m'(a_ti) |r_t(x_i)|²

    so that the loss is minimized over θ and maximized over the a (McClenny and Braga-Neto 2023,
    arXiv:2009.04544, the section on self-adaptive networks). The ascent is Adam's, as in the
    authors' program, before the step of θ: along averages of g and g², whose size does not matter,
    so that an a rises by about η in a step. It never falls.

    The weights belong to points: all steps must have the same ones.

    Parameters
    ----------
    rate : η, positive, dimensionless.
    initial : a before the first step, positive.
    power : q, positive.
    terms : the names of the terms whose points have weights; by default all.
    every : λ changes at every so many steps.
    """

    of_points: ClassVar[bool] = True

    _: KW_ONLY
    rate: float = 5e-3
    initial: float = 1.0
    power: float = 2.0
    terms: Sequence[str] | None = None
    every: int = 1

    def __post_init__(self) -> None:
        name = "SelfAdaptive"
        check_positive(name, rate=self.rate, initial=self.initial, power=self.power)
        checked_names(name, self.terms)
        check_count(name, "every", self.every)

    def check(self, terms: TermsOfLoss) -> None:
        """See `LossWeights`."""
        self._chosen(terms)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """See `LossWeights`: the a of all terms, then the averages of g, then those of g²."""
        first = [self.initial if weighed else 1.0 for weighed in self._chosen(terms)]
        a = [
            tf.fill([members, n], tf.constant(value, dtype))
            for n, value in zip(terms.points, first, strict=True)
        ]
        none = [tf.zeros_like(each) for each in a]
        return WeightState((), (*a, *none, *none))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """See `LossWeights`."""
        count = tf.cast(number // self.every + 1, loss.values.dtype)
        # The averages begin at zero: Kingma and Ba 2015, algorithm 1.
        unbias = tf.sqrt(1 - _BETA_2**count) / (1 - _BETA_1**count)
        squares, terms = loss.squares(), loss.terms.count
        parts: tuple[list[Tensor], ...] = ([], [], [])
        for t, weighed in enumerate(self._chosen(loss.terms)):
            a, mean, mean_square = state.of_points[t::terms]
            if weighed:
                slope = self.power * a ** (self.power - 1) * squares[t]
                mean = _BETA_1 * mean + (1 - _BETA_1) * slope
                mean_square = _BETA_2 * mean_square + (1 - _BETA_2) * slope**2
                a += self.rate * unbias * mean / (tf.sqrt(mean_square) + _EPSILON)
            for part, each in zip(parts, (a, mean, mean_square), strict=True):
                part.append(each)
        return WeightState((), tuple(each for part in parts for each in part))

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        """See `LossWeights`."""
        return [a**self.power for a in state.of_points[: loss.terms.count]]

    def _chosen(self, terms: TermsOfLoss) -> tuple[bool, ...]:
        return chosen_terms("SelfAdaptive", terms, self.terms, terms.count)
