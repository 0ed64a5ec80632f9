"""The optimizer that ends with given parameters, so that `train` makes a result of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Value
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report

Tensor = Any


@dataclass(frozen=True)
class Keep(Optimizer):
    """Takes the parameters θ: [p] that it is given, and evaluates the loss before and there.

    Conditions have the weights that `LeastSquares` gives them.

    parameters : θ; without them, the initial parameters stay.
    terms : of the loss there, if they are known, so that it is not evaluated, and the training ends
        as one whose steps do not lower the loss any further.
    """

    needs = Value
    condition_weight = 100.0
    default_steps = 2
    second_order = True
    compiles = False

    parameters: tuple[float, ...] = ()
    terms: tuple[float, ...] = ()

    def init(self, objective: Objective, parameters: Tensor) -> Tensor:
        return tf.zeros([parameters.shape[0]], tf.int32)

    def report(self, state: Tensor) -> Report:
        # A step in which a training ends is not counted: the second one ends it.
        return Report({}, (state > 1) & bool(self.terms))

    def step(
        self, objective: Objective, parameters: Tensor, state: Tensor, batch: Batch, at: At
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = tf.constant([self.parameters], parameters.dtype) if self.parameters else parameters
        if self.terms:
            return kept, state + 1, tf.constant([self.terms], parameters.dtype)
        return kept, state, objective.evaluate(Value, parameters, batch).terms
