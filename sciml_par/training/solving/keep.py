"""The optimizer that leaves a solution as it is, so that `train` makes a result of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Value
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report

Tensor = Any


@dataclass(frozen=True)
class Keep(Optimizer):
    """Evaluates the loss and ends. Conditions have the weights that `LeastSquares` gives them."""

    needs = Value
    condition_weight = 100.0
    default_steps = 1
    second_order = True

    def init(self, objective: Objective, parameters: Tensor) -> Tensor:
        """See `Optimizer`."""
        return tf.fill([parameters.shape[0]], True)

    def report(self, state: Tensor) -> Report:
        """See `Optimizer`."""
        return Report({}, state)

    def step(
        self, objective: Objective, parameters: Tensor, state: Tensor, batch: Batch, at: At
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Optimizer`."""
        return parameters, state, objective.evaluate(Value, parameters, batch).terms
