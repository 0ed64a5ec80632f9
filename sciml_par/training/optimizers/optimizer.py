"""What an optimizer is to the compiled loop, and what those that need only a gradient share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from sciml_par.training.identity.described import Described
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.schedules import Schedule, as_schedule

Tensor = Any
State = Any
Batch = Any


class Objective(Protocol):
    """L(θ) for M stacked members, θ: [M, p], over the points of all ranks that share it.

    Attributes
    ----------
    layout : how the p parameters of a member lie in its row.
    term_count : T, how many terms the loss has.
    """

    layout: ParameterLayout
    term_count: int

    def value(self, parameters: Tensor, batch: Batch) -> Tensor:
        """Return the terms of the loss with their weights, [M, T]; L is their sum (collective)."""

    def value_and_gradient(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the terms of the loss, [M, T], and ∇L, [M, p] (collective)."""

    def residuals(self, parameters: Tensor, batch: Batch) -> list[Tensor]:
        """√(w/N) r of each term on this rank's points, [M, K_t].

        L is the sum of all their squares, over terms and ranks.
        """

    def residuals_and_jacobian(
        self, parameters: Tensor, batch: Batch
    ) -> tuple[list[Tensor], list[Tensor]]:
        """√(w/N) r of each term on this rank's points, [M, K_t], and Jᵀ, [M, p, K_t]."""

    def jacobian_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> list[Tensor]:
        """J d of each term on this rank's points: d [M, p] -> [M, K_t]."""

    def transposed_times(self, parameters: Tensor, batch: Batch, v: Sequence[Tensor]) -> Tensor:
        """Jᵀ v over this rank's points: [M, K_t] of each term -> [M, p]."""

    def normal_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> Tensor:
        """JᵀJ d over this rank's points: [M, p] -> [M, p]."""

    def prepare_jacobian(self, parameters: Tensor, batch: Batch) -> None:
        """Called by `prepare` of optimizers that use `residuals_and_jacobian`."""

    def sum_over_ranks(self, tensor: Tensor) -> Tensor:
        """Σ over the ranks that share the loss (collective)."""

    def residuals_of_ranks(self, batch: Batch) -> tuple[int, ...]:
        """Return how many residuals each rank has, [P], Σ_t K_t of its own; known when traced."""

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The ranks' rows one below the other, of which each has counts[rank] (collective)."""

    def exchange(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Return the rows that the ranks have for this one, one below the other (collective).

        Parameters
        ----------
        sent, received : how many go to each rank, and come from it, [P].
        """

    def from_first_rank(self, tensor: Tensor) -> Tensor:
        """What the first of the ranks that share the loss has (collective)."""

    def from_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """What one of the ranks that share the loss has (collective)."""

    def from_every_rank(self, tensor: Tensor) -> Tensor:
        """What each of the ranks that share the loss has, of one shape: [P, …] (collective)."""

    def sum_on_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """Σ over the ranks, on one of them: [n]; [0] on the others (collective)."""

    @property
    def ranks(self) -> int:
        """How many share the loss."""

    @property
    def on_first_rank(self) -> bool:
        """Whether this is the first of the ranks that share the loss."""

    @property
    def rank(self) -> int:
        """Which of the ranks that share the loss this is."""


@dataclass(frozen=True)
class At:
    """What the loop tells an optimizer of the step that it is to make.

    Attributes
    ----------
    number : the step's number in its phase, counted from 1; an integer scalar.
    rate_factor : what each member's learning rate is to be multiplied by, [M, 1].
    running : the members whose step will count, [M]; None where all do. The others have ended, and
        what becomes of them is thrown away, so that no evaluation need be made for them.
    same_points : whether all steps have the same batch, and this one the weights of the step
        before, a scalar; so that a loss and a gradient that were computed in the step before are
        still those of the same parameters.
    """

    number: Tensor
    rate_factor: Tensor
    running: Tensor | None = None
    same_points: bool | Tensor = False


@dataclass(frozen=True)
class Report:
    """What an optimizer tells of its last step, from its state.

    Attributes
    ----------
    measures : numbers to show, such as the length of the step, by name: [M] each.
    stuck : whether the optimizer finds no better parameters any more, [M], booleans.
    """

    measures: dict[str, Tensor]
    stuck: Tensor


class Optimizer(Protocol):
    """What the compiled loop needs of an optimizer.

    Both functions are pure and are traced into the loop. A state is a nest of tensors, whose
    shapes and types no step changes; each tensor has the members as its first axis. Members are
    independent of one another: row j of all results depends on row j of the arguments only.

    Attributes
    ----------
    key : equal for two optimizers which put the same operations into a compiled loop.

    Notes
    -----
    An optimizer may also have ``report(state) -> Report`` (local), which the loop asks after each
    step, and ``prepare(objective, parameters, batch)`` (local), which the loop calls outside of any
    graph before it traces steps.
    """

    @property
    def key(self) -> Hashable:
        """See above."""

    def describe(self) -> dict[str, str]:
        """Return the hyper-parameters as short texts, equal on ranks that were given the same."""

    def with_ranks(self, size: int) -> Optimizer:
        """Return the same optimizer in a training whose loss is shared by `size` ranks."""

    def init(self, objective: Objective, parameters: Tensor) -> State:
        """Return the state before the first step from θ: [M, p]."""

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        """Make one step (collective).

        Returns
        -------
        parameters : [M, p], not finite where the step of a member cannot be made.
        state : the new state.
        losses : the terms of the loss before the step, [M, T].
        """

    def finish(self, objective: Objective, parameters: Tensor, state: State) -> Tensor:
        """Return the parameters that a phase ends with, [M, p], after its last step."""


class FirstOrder(Described, ABC):
    """An optimizer that needs nothing but the gradient; a frozen dataclass."""

    learning_rate: float | Schedule

    @abstractmethod
    def start(self, layout: ParameterLayout, parameters: Tensor) -> State:
        """Return the state before the first step from θ: [M, p] (local)."""

    @abstractmethod
    def update(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        gradient: Tensor,
        state: State,
        rate: Tensor,
        number: Tensor,
    ) -> tuple[Tensor, State]:
        """One update of θ: [M, p] by ∇L: [M, p] (local).

        Parameters
        ----------
        rate : the learning rate of this step, [M, 1].
        number : of the step in its phase, counted from 1.
        """

    def with_ranks(self, size: int) -> Self:
        """See `Optimizer`."""
        if not isinstance(self.learning_rate, Schedule):
            return self
        schedule = self.learning_rate.with_ranks(size)
        return replace(self, learning_rate=schedule)  # type: ignore[type-var]

    def finish(self, objective: Objective, parameters: Tensor, state: State) -> Tensor:
        """See `Optimizer`: the parameters as they are."""
        return parameters

    def init(self, objective: Objective, parameters: Tensor) -> State:
        """See `Optimizer`."""
        return self.start(objective.layout, parameters)

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        """See `Optimizer`."""
        losses, gradient = objective.value_and_gradient(parameters, batch)
        schedule = as_schedule(self.learning_rate)
        rate = schedule(at.number - 1, parameters.dtype) * at.rate_factor
        parameters, state = self.update(
            objective.layout, parameters, gradient, state, rate, at.number
        )
        return parameters, state, losses
