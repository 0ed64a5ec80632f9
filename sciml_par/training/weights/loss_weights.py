"""The interface of strategies for the weights of a loss, and of the loss that they see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.identity.described import Described
from sciml_par.training.loss.known import GradientsOfTerms, Jacobian, Residuals
from sciml_par.training.loss.objective import StackedObjective
from sciml_par.training.points.feed import Batch, Rows

Tensor = Any
Point = tuple[float, ...]


@dataclass(frozen=True)
class TermsOfLoss:
    """The facts about a loss before the first step.

    Attributes
    ----------
    names : of the T terms: the equations first, then the conditions.
    equations : how many of them are equations.
    points : how many points each term has on all ranks, in a step: [T].
    coordinates : the names of the d coordinates.
    lower, upper : the corners of the box around each member's domain, [M][d].
    """

    names: tuple[str, ...]
    equations: int
    points: tuple[int, ...]
    coordinates: tuple[str, ...]
    lower: tuple[Point, ...]
    upper: tuple[Point, ...]

    @property
    def count(self) -> int:
        """The number T of terms."""
        return len(self.names)


class WeightState(NamedTuple):
    """The state of a strategy, with the members as first axis of each tensor.

    Attributes
    ----------
    of_terms : a nest of tensors [M, …], the same on all ranks.
    of_points : one or several for each term: [M, n_t] of this rank's points within a chunk of
        steps, and outside [M, N_t] of the points of all ranks, one rank after the other. Empty
        for strategies of terms.
    """

    of_terms: Any
    of_points: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class LossAt:
    """The loss of the problem before a step, without the weights of the strategy.

    `values` are its terms, [M, T]. Results that are reduced over ranks are the same on all ranks.
    """

    terms: TermsOfLoss
    values: Tensor
    _plain: StackedObjective
    _weighted: StackedObjective
    _stacked: Sequence[Any]
    _parameters: Tensor
    _batch: Batch

    def gradients(self) -> Tensor:
        """Return the gradient of each term by the parameters, [M, T, p] (collective)."""
        return self._plain.evaluate(GradientsOfTerms, self._parameters, self._batch).gradients

    def kernel_traces(self) -> Tensor:
        """Return Σ_i |∂ρ_ti/∂θ|² of each term, with ρ = √(w/N) r, [M, T] (collective)."""
        known = self._plain.evaluate(Jacobian, self._parameters, self._batch)
        own = [tf.reduce_sum(tf.square(each), axis=[1, 2]) for each in known.jacobian]
        return self._plain.ranks.sum(tf.stack(own, axis=1))

    def squares(self) -> list[Tensor]:
        """Return |r_t(x_i)|² without any weight at this rank's points, [M, n_t] for each term."""
        members, dtype = self._parameters.shape[0], self._parameters.dtype
        ones = tf.ones([members], dtype)
        batch = tuple(Rows(ones, rows.arrays) for rows in self._batch)
        found = []
        known = self._weighted.evaluate(Residuals, self._parameters, batch)
        for r, rows, flags in zip(known.residuals, batch, self._stacked, strict=True):
            n = rows.arrays[0].shape[int(flags[1][0])]
            # A component lies after the other.
            each = tf.reshape(r, [members, -1, n]) if n else tf.zeros([members, 1, 0], dtype)
            found.append(tf.reduce_sum(tf.square(each), axis=1))
        return found

    def weighted_squares(self) -> list[Tensor]:
        """Return w_t |r_t(x_i)|² at this rank's points, [M, n_t] for each term."""
        found = []
        for squares, rows, flags, total in zip(
            self.squares(), self._batch, self._stacked, self.terms.points, strict=True
        ):
            weights = rows.weights if flags[0] else rows.weights[None]
            weights = weights if weights.shape.rank == 2 else weights[:, None]
            found.append(weights * total * squares)
        return found

    def coordinate(self, axis: int) -> list[Tensor]:
        """Return a coordinate of this rank's points, [n_t]; [M, n_t] where members differ."""
        return [rows.arrays[0][..., axis] for rows in self._batch]

    def sum_over_ranks(self, tensor: Tensor) -> Tensor:
        """Return the sum over the ranks that share the loss (collective)."""
        return self._plain.ranks.sum(tensor)

    def largest_of_ranks(self, tensor: Tensor) -> Tensor:
        """Return the largest of all ranks, element by element (collective)."""
        return self._plain.ranks.largest(tensor)


class LossWeights(Described, ABC):
    """A strategy for the weights λ of a loss; a frozen dataclass.

        L_λ(θ) = Σ_t (w_t/N_t) Σ_i λ_ti |r_t(x_i)|²

    The optimizer minimizes L_λ. Records, stops and the best weights use L, with λ = 1. All
    functions are pure and are traced into the compiled loop. Row j of all results depends on row j
    of the arguments only.

    Attributes
    ----------
    every : λ changes at steps whose number, counted from 0, is a multiple of it.
    of_points : whether each point has a λ with a history.
    needs_jacobian : whether `update` calls `kernel_traces`.
    """

    every: int
    of_points: ClassVar[bool] = False
    needs_jacobian: ClassVar[bool] = False

    def check(self, terms: TermsOfLoss) -> None:
        """Raise an `InputError` if the strategy does not suit the loss (local)."""

    @abstractmethod
    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """Return the state before the first step; of points, those of all ranks (local)."""

    @abstractmethod
    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """Return the state for the step that follows `number` others (collective)."""

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        """Return λ of each term: [M], or [M, n_t] for this rank's points (local)."""
        return tf.unstack(state.of_terms, axis=1)


def ones_of_terms(terms: TermsOfLoss, members: int, dtype: Any) -> Tensor:
    """Return λ = 1 for every term, [M, T]."""
    return tf.ones([members, terms.count], dtype)


def where_positive(divisor: Tensor, quotient: Any, otherwise: Tensor) -> Tensor:
    """Return `quotient(divisor)` where the divisor is positive and the result finite.

    A term that is zero everywhere, such as one that an ansatz satisfies, has no scale.
    """
    safe = tf.where(divisor > 0, divisor, tf.ones_like(divisor))
    found = quotient(safe)
    return tf.where((divisor > 0) & tf.math.is_finite(found), found, otherwise)


def chosen_terms(
    where: str, terms: TermsOfLoss, names: Sequence[str] | None, usual: int
) -> tuple[bool, ...]:
    """Return which terms a strategy weighs: those of these names, or else the first `usual`."""
    if names is None:
        return tuple(t < usual for t in range(terms.count))
    for name in names:
        if name not in terms.names:
            raise InputError(
                f"{where}: the loss has no term {name!r}; its terms are "
                f"{', '.join(map(repr, terms.names))}."
            )
    return tuple(name in names for name in terms.names)
