"""What a strategy for the weights of a loss is, and what it may ask of the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.identity.described import Described

Tensor = Any
Point = tuple[float, ...]


@dataclass(frozen=True)
class TermsOfLoss:
    """What a strategy knows of the loss before the first step.

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
        """T."""
        return len(self.names)


class WeightState(NamedTuple):
    """What a strategy carries from step to step, with the members as first axis of each tensor.

    Attributes
    ----------
    of_terms : a nest of tensors [M, …], the same on all ranks.
    of_points : one for each term, or several times one for each: [M, n_t] of this rank's points
        within a chunk of steps, and [M, N_t] of those of all ranks, one rank after the other,
        outside; none for strategies that know no points.
    """

    of_terms: Any
    of_points: tuple[Tensor, ...] = ()


class LossAt(Protocol):
    """The loss at the parameters before a step, as a strategy may ask for it.

    It is the loss of the problem, with the weights of residuals and conditions and without those
    of the strategy. What is reduced over ranks is the same on all of them.

    Attributes
    ----------
    terms : what is known of it before.
    values : its terms, [M, T].
    """

    terms: TermsOfLoss
    values: Tensor

    def gradients(self) -> Tensor:
        """Return the gradient of each term by the parameters, [M, T, p] (collective)."""

    def kernel_traces(self) -> Tensor:
        """Σ_i |∂ρ_ti/∂θ|² of each term's weighted residuals ρ = √(w/N) r, [M, T] (collective)."""

    def squares(self) -> list[Tensor]:
        """|r_t(x_i)|² without any weight at this rank's points, [M, n_t] for each term."""

    def weighted_squares(self) -> list[Tensor]:
        """w_t |r_t(x_i)|² at this rank's points, [M, n_t] for each term."""

    def coordinate(self, axis: int) -> list[Tensor]:
        """That coordinate of this rank's points, [n_t]; [M, n_t] where members differ."""

    def sum_over_ranks(self, tensor: Tensor) -> Tensor:
        """Σ over the ranks that share the loss (collective)."""

    def largest_of_ranks(self, tensor: Tensor) -> Tensor:
        """Return the largest of all ranks, element by element (collective)."""


class LossWeights(Described, ABC):
    """A strategy for the weights λ of a loss; a frozen dataclass.

        L_λ(θ) = Σ_t (w_t/N_t) Σ_i λ_ti |r_t(x_i)|²

    The optimizer minimizes L_λ, while L, with λ = 1, is the loss that is recorded, judged by stops,
    and by which the best weights are chosen. All functions are pure and are traced into the
    compiled loop. Members are independent of one another: row j of all results depends on row j of
    the arguments only.

    Attributes
    ----------
    every : λ changes at steps whose number, counted from 0, is a multiple of it.
    of_points : whether λ depends on the single point, and on its history.
    needs_jacobian : whether `update` asks for `kernel_traces`.
    """

    every: int
    of_points: ClassVar[bool] = False
    needs_jacobian: ClassVar[bool] = False

    def check(self, terms: TermsOfLoss) -> None:
        """Check that the strategy suits the loss (local).

        Raises
        ------
        InputError
            It does not.
        """

    @abstractmethod
    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        """Return the state before the first step; of points, those of all ranks (local)."""

    @abstractmethod
    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        """The state with which the step is made that follows `number` others (collective)."""

    def multipliers(self, state: WeightState, loss: LossAt) -> list[Tensor]:
        """λ of each term: [M], or [M, n_t] for this rank's points (local)."""
        return tf.unstack(state.of_terms, axis=1)


def ones_of_terms(terms: TermsOfLoss, members: int, dtype: Any) -> Tensor:
    """λ = 1 for every term, [M, T]."""
    return tf.ones([members, terms.count], dtype)


def where_positive(divisor: Tensor, quotient: Any, otherwise: Tensor) -> Tensor:
    """`quotient(divisor)` where the divisor is positive and the result finite.

    A term that is zero everywhere, such as one that an ansatz satisfies, has no scale of its own.
    """
    safe = tf.where(divisor > 0, divisor, tf.ones_like(divisor))
    found = quotient(safe)
    return tf.where((divisor > 0) & tf.math.is_finite(found), found, otherwise)


def chosen_terms(
    where: str, terms: TermsOfLoss, names: Sequence[str] | None, usual: int
) -> tuple[bool, ...]:
    """Which terms a strategy has been asked to weigh; the first `usual` where it has not."""
    if names is None:
        return tuple(t < usual for t in range(terms.count))
    for name in names:
        if name not in terms.names:
            raise InputError(f"{where}: {unknown_term(name, terms.names)}")
    return tuple(name in names for name in terms.names)


def checked_names(where: str, names: Any) -> None:
    """Check that names of terms are a sequence of texts, or None."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, tuple | list):
        raise InputError(
            f"{where}: expected terms to be names of terms of the loss, such as ('residual',); got "
            f"{names!r}."
        )


def unknown_term(name: Any, names: Sequence[str]) -> str:
    """Return a sentence that says which terms there are."""
    return f"the loss has no term {name!r}; its terms are {', '.join(map(repr, names))}."
