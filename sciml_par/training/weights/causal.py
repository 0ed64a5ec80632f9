"""Weights of points that rise once the equations hold at all times before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, NamedTuple

from sciml_par._checks import check_count, check_number, check_positive
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.weights.loss_weights import LossAt, LossWeights, TermsOfLoss, WeightState

Tensor = Any


class Slices(NamedTuple):
    """Attributes: the weights of the slices, [M, S]; which ε holds, [M]."""

    weights: Tensor
    stage: Tensor


@dataclass(frozen=True)
class Causal(LossWeights):
    """Weigh equations at a time by how well they hold at all times before.

        λ_i = exp(−ε Σ_{k<i} L_k)

    for points in slice i of S slices of equal length of the time of the domain, with L_k the sum
    over the equations of their mean squares, with their weights, in slice k (Wang, Sankaran and
    Perdikaris 2024, arXiv:2203.07404, algorithm 1). Conditions have
    λ = 1. ε is the first of a sequence until the smallest λ exceeds a tolerance δ, and then the
    next.

    Parameters
    ----------
    epsilon : ε, positive, in units of 1/L, or an ascending sequence of these.
    tolerance : δ, in (0, 1), dimensionless.
    slices : S, at least 2. A slice without points has L_k = 0.
    coordinate : the name of the coordinate that is the time.
    every : λ changes every `every` steps.
    """

    _: KW_ONLY
    epsilon: float | Sequence[float] = (1e-2, 1e-1, 1.0, 1e1, 1e2)
    tolerance: float = 0.99
    slices: int = 32
    coordinate: str = "t"
    every: int = 1

    def __post_init__(self) -> None:
        check_number("Causal", "tolerance", self.tolerance, "in (0, 1)", lambda v: 0 < v < 1)
        check_count("Causal", "slices", self.slices)
        check_count("Causal", "every", self.every)
        several = isinstance(self.epsilon, tuple | list)
        if not several and not isinstance(self.epsilon, Real):
            raise InputError(
                f"Causal: expected epsilon to be a number > 0 or a sequence of these; got "
                f"{self.epsilon!r}."
            )
        for epsilon in self._epsilons or (0,):
            check_positive("Causal", epsilon=epsilon)
        if self.slices < 2:
            raise InputError(f"Causal: expected slices to be at least 2; got {self.slices}.")

    def check(self, terms: TermsOfLoss) -> None:
        if self.coordinate not in terms.coordinates:
            raise InputError(
                f"Causal: the problem has no coordinate {self.coordinate!r}; its coordinates are "
                f"{', '.join(map(repr, terms.coordinates))}. Name the time in the domain, as "
                f"Box(…, names=('x', 't')), or write Causal(coordinate={terms.coordinates[-1]!r})."
            )

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        stage = tf.zeros([members], tf.int32)
        return WeightState(Slices(tf.ones([members, self.slices], dtype), stage))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        before: Slices = state.of_terms
        losses = self._losses(loss)
        earlier = tf.cumsum(losses, axis=1, exclusive=True)
        epsilons = tf.constant(self._epsilons, losses.dtype)
        weights = tf.exp(-tf.gather(epsilons, before.stage)[:, None] * earlier)
        solved = tf.reduce_min(weights, axis=1) > self.tolerance
        stage = tf.minimum(before.stage + tf.cast(solved, tf.int32), len(self._epsilons) - 1)
        return WeightState(Slices(weights, stage))

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        weights = state.of_terms.weights
        found = [tf.ones([weights.shape[0]], weights.dtype)] * loss.terms.count
        for t, numbers in enumerate(self._numbers(loss)):
            batch_dims = numbers.shape.rank - 1
            found[t] = tf.gather(weights, numbers, axis=1, batch_dims=batch_dims)
        return found

    @property
    def _epsilons(self) -> tuple[float, ...]:
        given: Any = self.epsilon
        return tuple(given) if isinstance(given, tuple | list) else (given,)

    def _losses(self, loss: LossAt) -> Tensor:
        """Return L_k, [M, S] (collective)."""
        parts = []
        numbers = self._numbers(loss)
        for squares, own in zip(loss.weighted_squares(), numbers, strict=False):
            inside = tf.one_hot(own, self.slices, dtype=squares.dtype)
            inside = tf.broadcast_to(inside, [*squares.shape, self.slices])
            parts += [tf.einsum("mn,mns->ms", squares, inside), tf.reduce_sum(inside, axis=1)]
        sums = loss.sum_over_ranks(tf.stack(parts))
        return tf.reduce_sum(sums[0::2] / tf.maximum(sums[1::2], 1), axis=0)

    def _numbers(self, loss: LossAt) -> list[Tensor]:
        """Return the slice of each point of the equations, [n_t] or [M, n_t] each."""
        terms = loss.terms
        axis = terms.coordinates.index(self.coordinate)
        begins, ends = (
            [corner[axis] for corner in corners] for corners in (terms.lower, terms.upper)
        )
        found = []
        for times in loss.coordinate(axis)[: terms.equations]:
            begin, end = begins[0], ends[0]
            alike = len(set(zip(begins, ends, strict=True))) == 1
            if not alike:
                begin = tf.constant(begins, times.dtype)[:, None]
                end = tf.constant(ends, times.dtype)[:, None]
            place = tf.floor((times - begin) / (end - begin) * self.slices)
            found.append(tf.cast(tf.clip_by_value(place, 0, self.slices - 1), tf.int32))
        return found
