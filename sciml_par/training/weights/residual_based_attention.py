"""Weights of points by a running mean of their share in the largest residual."""

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
from sciml_par.training.weights.loss_weights import (
    LossAt,
    LossWeights,
    TermsOfLoss,
    WeightState,
    checked_names,
    chosen_terms,
    where_positive,
)

Tensor = Any


@dataclass(frozen=True)
class ResidualBasedAttention(LossWeights):
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
    every : λ changes at every so many steps.
    """

    of_points: ClassVar[bool] = True

    _: KW_ONLY
    decay: float = 0.999
    rate: float = 0.01
    initial: float = 1.0
    terms: Sequence[str] | None = None
    every: int = 1

    def __post_init__(self) -> None:
        name = "ResidualBasedAttention"
        check_fraction(name, decay=self.decay)
        check_positive(name, rate=self.rate)
        check_not_negative(name, initial=self.initial)
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
        sizes = [tf.sqrt(squares) for squares in loss.squares()]
        zero = tf.zeros([sizes[0].shape[0], 1], sizes[0].dtype)
        # A rank without points of a term has zero there, which is no more than any residual.
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
        """See `LossWeights`."""
        return [tf.square(a) for a in state.of_points]

    def _chosen(self, terms: TermsOfLoss) -> tuple[bool, ...]:
        return chosen_terms("ResidualBasedAttention", terms, self.terms, terms.equations)
