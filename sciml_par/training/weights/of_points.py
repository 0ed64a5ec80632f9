"""Weights of single points: self-adaptive, and by residuals relative to the largest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sciml_par._checks import (
    check_count,
    check_fraction,
    check_not_negative,
    check_positive,
)
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    TermsOfLoss,
    WeightState,
    chosen_terms,
    where_positive,
)

Tensor = Any

_BETA_1, _BETA_2, _EPSILON = 0.99, 0.999, 1e-7


@dataclass(frozen=True)
class _OfPoints(LossWeights):
    """A number a for each point of the terms that are weighed; 1 for the others."""

    of_points: ClassVar[bool] = True

    _: KW_ONLY
    rate: float
    initial: float
    terms: Sequence[str] | None
    every: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, rate=self.rate)
        if isinstance(self.terms, str) or not isinstance(self.terms, tuple | list | None):
            raise InputError(
                f"{name}: expected terms to be names of terms of the loss, such as "
                f"('residual',); got {self.terms!r}."
            )
        check_count(name, "every", self.every)

    def check(self, terms: TermsOfLoss) -> None:
        self._chosen(terms)

    def _initial(self, terms: TermsOfLoss, members: int, dtype: Any) -> tuple[Tensor, ...]:
        first = [self.initial if weighed else 1.0 for weighed in self._chosen(terms)]
        return tuple(
            tf.fill([members, n], tf.constant(value, dtype))
            for n, value in zip(terms.points, first, strict=True)
        )

    def _chosen(self, terms: TermsOfLoss) -> tuple[bool, ...]:
        """Return of each term whether its points are weighed."""
        return chosen_terms(type(self).__name__, terms, self.terms, terms.count)


@dataclass(frozen=True)
class SelfAdaptive(_OfPoints):
    """Points whose weights grow as long as their residuals are not zero.

        L_λ = Σ_t (w_t/N_t) Σ_i m(a_ti) |r_t(x_i)|²,    m(a) = a^q
        g_ti = m'(a_ti) |r_t(x_i)|²

    so that the loss is minimized over θ and maximized over the a (McClenny and Braga-Neto 2023,
    arXiv:2009.04544, the section on self-adaptive networks). The ascent is Adam's, as in the
    authors' program, before the step of θ. Its averages of g and g² make an a rise by about η in a
    step, whatever the size of g. An a never falls.

    The weights belong to points: all steps must have the same ones.

    Parameters
    ----------
    rate : η, positive, dimensionless.
    initial : a before the first step, positive.
    power : q, positive.
    terms : the names of the terms whose points have weights; by default all.
    every : λ changes every `every` steps.
    """

    _: KW_ONLY
    rate: float = 5e-3
    initial: float = 1.0
    power: float = 2.0
    terms: Sequence[str] | None = None
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("SelfAdaptive", initial=self.initial, power=self.power)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        a = self._initial(terms, members, dtype)
        none = [tf.zeros_like(each) for each in a]
        return WeightState((), (*a, *none, *none))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
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
        return [a**self.power for a in state.of_points[: loss.terms.count]]


@dataclass(frozen=True)
class ResidualBasedAttention(_OfPoints):
    """Points whose residuals stay large among those of their term count most.

        a_ti ← γ a_ti + η |r_t(x_i)| / max_j |r_t(x_j)|        λ_ti = a_ti²

    with the largest residual of all ranks (Anagnostopoulos, Toscano, Stergiopulos and Karniadakis
    2024, arXiv:2307.00379, the update rule of the RBA weights). No a comes to exceed η / (1 − γ).

    The weights belong to points: all steps must have the same ones.

    Parameters
    ----------
    decay : γ, in [0, 1), dimensionless.
    rate : η, positive, dimensionless.
    initial : a before the first step, at least 0.
    terms : the names of the terms whose points have weights; by default the equations.
    every : λ changes every `every` steps.
    """

    _: KW_ONLY
    decay: float = 0.999
    rate: float = 0.01
    initial: float = 1.0
    terms: Sequence[str] | None = None
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("ResidualBasedAttention", decay=self.decay)
        check_not_negative("ResidualBasedAttention", initial=self.initial)

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        return WeightState((), self._initial(terms, members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        sizes = [tf.sqrt(squares) for squares in loss.squares()]
        zero = tf.zeros([sizes[0].shape[0], 1], sizes[0].dtype)
        # A rank without points of a term has zero there, which is at most any residual.
        own = [tf.reduce_max(tf.concat([zero, size], axis=1), axis=1) for size in sizes]
        largest = loss.largest_of_ranks(tf.stack(own, axis=1))
        found = []
        for t, weighed in enumerate(self._chosen(loss.terms)):
            a, size = state.of_points[t], sizes[t]
            top = tf.broadcast_to(largest[:, t : t + 1], size.shape)
            share = where_positive(top, lambda divisor, size=size: size / divisor, size)
            found.append(self.decay * a + self.rate * share if weighed else a)
        return WeightState((), tuple(found))

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        return [tf.square(a) for a in state.of_points]

    def _chosen(self, terms: TermsOfLoss) -> tuple[bool, ...]:
        return chosen_terms("ResidualBasedAttention", terms, self.terms, terms.equations)
