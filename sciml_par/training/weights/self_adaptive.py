"""Weights of points that are trained against the network: self-adaptive weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sciml_par._tensorflow import tf
from sciml_par.training.optimizers._checks import check_count, check_positive
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    TermsOfLoss,
    WeightState,
    checked_names,
    chosen_terms,
)

Tensor = Any


@dataclass(frozen=True)
class SelfAdaptive(LossWeights):
    """Points whose weights grow as long as their residuals are not zero.

        L_λ = Σ_t (w_t/N_t) Σ_i m(a_ti) |r_t(x_i)|²,    m(a) = a^q
        a_ti ← a_ti + η m'(a_ti) |r_t(x_i)|²

    so that the loss is minimized over θ and maximized over the a (McClenny and Braga-Neto 2023,
    arXiv:2009.04544, the section on self-adaptive
    networks). The ascent is by plain steps, before the step of θ, along
    N_t/w_t times the gradient of L_λ, so that η does not depend on the number of points.

    The weights belong to points: all steps must have the same ones. They never fall.

    Parameters
    ----------
    rate : η, positive, in units of 1/|r|². With q = 2 an a grows by the share 2η|r|² in a step: it
        explodes where that is not far below 1.
    initial : a before the first step, positive.
    power : q, positive.
    terms : the names of the terms whose points have weights; by default all.
    every : λ changes at every so many steps.
    """

    of_points: ClassVar[bool] = True

    _: KW_ONLY
    rate: float = 1e-3
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
        """See `LossWeights`."""
        first = [self.initial if weighed else 1.0 for weighed in self._chosen(terms)]
        return WeightState(
            (),
            tuple(
                tf.fill([members, n], tf.constant(value, dtype))
                for n, value in zip(terms.points, first, strict=True)
            ),
        )

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """See `LossWeights`."""

        def risen(a: Tensor, squares: Tensor) -> Tensor:
            return a + self.rate * self.power * a ** (self.power - 1) * squares

        given = zip(state.of_points, loss.squares(), self._chosen(loss.terms), strict=True)
        return WeightState((), tuple(risen(a, r2) if weighed else a for a, r2, weighed in given))

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        """See `LossWeights`."""
        return [a**self.power for a in state.of_points]

    def _chosen(self, terms: TermsOfLoss) -> tuple[bool, ...]:
        return chosen_terms("SelfAdaptive", terms, self.terms, terms.count)
