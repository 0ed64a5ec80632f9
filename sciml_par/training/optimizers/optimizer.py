"""What an optimizer is to the compiled loop, and what those that need only a gradient share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sciml_par.training.identity.described import Described
from sciml_par.training.loss.known import Gradient, Known
from sciml_par.training.optimizers.schedules import Schedule, as_schedule

if TYPE_CHECKING:
    from sciml_par.training.loss.objective import StackedObjective
    from sciml_par.training.loss.parameter_layout import ParameterLayout

    Objective = StackedObjective
else:
    Objective = Any  # its module imports much that an optimizer does not need

Tensor = Any
State = Any
Batch = Any


@dataclass(frozen=True)
class At:
    """What the loop tells an optimizer of the step that it is to make.

    What becomes of members that do not run is thrown away: no evaluation need be made for them.
    With `same_points` this step has the batch and the weights of the step before, so that the loss
    and the gradient that were computed there are still those of the same parameters.
    """

    number: Tensor  # of the step in its phase, counted from 1; an integer scalar
    rate_factor: Tensor  # of each member's learning rate, [M, 1]
    running: Tensor | None = None  # the members whose step will count, [M]; None where all do
    same_points: bool | Tensor = False


@dataclass(frozen=True)
class Report:
    """What an optimizer tells of its last step, from its state."""

    measures: dict[str, Tensor]  # numbers to show, such as the length of the step: [M] each
    stuck: Tensor  # whether the optimizer finds no better parameters any more, [M], booleans


class Optimizer(Described, ABC):
    """What the compiled loop needs of an optimizer; a frozen dataclass of its hyper-parameters.

    `init` and `step` are pure and are traced into the loop. A state is a nest of tensors, whose
    shapes and types no step changes; each tensor has the members as its first axis. Members are
    independent of one another: row j of all results depends on row j of the arguments only.
    """

    needs: ClassVar[type[Known]] = Gradient  # the richest knowledge of the loss that a step asks
    default_steps: ClassVar[int] = 30_000  # of a phase
    least_squares: ClassVar[bool] = False  # whether a step solves those of its batch to the end
    second_order: ClassVar[bool] = False  # whether residuals may vanish at training points alone
    condition_weight: ClassVar[float | None] = None  # against equations, by default; None for 1
    prefers_centres: ClassVar[bool] = False  # whether networks begin better with centres
    compiles: ClassVar[bool] = True  # whether the steps are worth a compilation
    most_left: ClassVar[float] = 0.5**0.5
    """The share of the right side (the root of the loss of u = 0) that is worth a warning."""

    @abstractmethod
    def init(self, objective: Objective, parameters: Tensor) -> State:
        """Return the state before the first step from θ: [M, p]."""

    @abstractmethod
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
        return parameters

    def report(self, state: State) -> Report | None:
        """Return what there is to show of the last step (local)."""
        return None

    def check(self, layout: ParameterLayout, members: int, dtype: Any) -> None:
        """Raise an `InputError` if these members and parameters cannot be trained (local)."""

    def in_phases(self, steps: int) -> tuple[tuple[Optimizer, int], ...]:
        """Return the optimizers that make these steps, one after another, and their steps."""
        return ((self, steps),)

    def with_ranks(self, size: int) -> Self:
        """Return the same optimizer in a training whose loss is shared by `size` ranks."""
        return self


class FirstOrder(Optimizer):
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
        """Return θ: [M, p] after one update by ∇L: [M, p] (local).

        Parameters
        ----------
        rate : the learning rate of this step, [M, 1].
        number : of the step in its phase, counted from 1.
        """

    def with_ranks(self, size: int) -> Self:
        if not isinstance(self.learning_rate, Schedule):
            return self
        schedule = self.learning_rate.with_ranks(size)
        return replace(self, learning_rate=schedule)  # type: ignore[type-var]

    def init(self, objective: Objective, parameters: Tensor) -> State:
        return self.start(objective.layout, parameters)

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        here = objective.evaluate(Gradient, parameters, batch)
        schedule = as_schedule(self.learning_rate)
        rate = schedule(at.number - 1, parameters.dtype) * at.rate_factor
        parameters, state = self.update(
            objective.layout, parameters, here.gradient, state, rate, at.number
        )
        return parameters, state, here.terms
