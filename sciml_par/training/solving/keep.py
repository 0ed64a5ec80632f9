"""The optimizer that leaves a solution as it is, so that `train` makes a result of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.training.identity.described import Described
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Report

Tensor = Any


@dataclass(frozen=True)
class Keep(Described):
    """Evaluates the loss and ends. Conditions have the weights that `LeastSquares` gives them."""

    condition_weight = 100.0
    default_steps = 1
    second_order = True

    def with_ranks(self, size: int) -> Keep:
        """See `Optimizer`."""
        return self

    def init(self, objective: Objective, parameters: Tensor) -> Tensor:
        """See `Optimizer`."""
        return tf.fill([parameters.shape[0]], True)

    def finish(self, objective: Objective, parameters: Tensor, state: Tensor) -> Tensor:
        """See `Optimizer`: the parameters as they are."""
        return parameters

    def report(self, state: Tensor) -> Report:
        """See `Optimizer`."""
        return Report({}, state)

    def step(
        self, objective: Objective, parameters: Tensor, state: Tensor, batch: Batch, at: At
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Optimizer`."""
        return parameters, state, objective.value(parameters, batch)
