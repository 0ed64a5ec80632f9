"""Gauss–Newton for the output layer of one network, without a compiled loop around it.

A few steps are made, so that tracing and compiling a loop for them would take most of the time.
`LeastSquares` makes the same steps inside of the loops of `train`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.objective import field_of, jacobians_of
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.least_squares.least_squares import (
    LEAST_GAIN,
    LastStep,
    LeastSquares,
    least_squares,
)
from sciml_par.training.outcome.together import together
from sciml_par.training.points.feed import Batch

Array = npt.NDArray[Any]

_LITTLE_GAIN = 0.5
"""Two whole steps that leave more than this share of the loss are the last ones."""


class GaussNewton:
    """Solves for the output layers of the networks of a stack, one after another."""

    def __init__(self, stack: Stack, communicator: Communicator) -> None:
        problem, network = stack.problem, stack.network
        self._layout = stack.layout.of_linear()
        self._objective = MemberObjective(
            partial(field_of, problem, network),
            stack.terms,
            layout=stack.layout,
            jacobians=jacobians_of(problem, network, self._layout),
        )
        self._jacobian: Any = None
        self._residuals: Any = None
        self._communicator, self._method = communicator, LeastSquares()

    def solve(self, theta: Array, batch: Batch, steps: int) -> tuple[Array, int, LastStep]:
        """Return θ: [p] after so many steps, their number, and the last one (collective).

        After fewer, if the loss falls no further.
        """
        if self._jacobian is None:
            together(self._communicator, lambda: self._trace(tf.constant(theta), batch))
        loss, little, made = self._loss(theta, batch), 0, 0
        step = LastStep(np.zeros_like(theta), 1.0)
        while made < steps:
            before, made = loss, made + 1
            theta, loss, step = self._step(theta, batch, before)
            # Whole steps that gain little have come to rounding, or to what the features can.
            little = little + 1 if step.size == 1.0 and loss > _LITTLE_GAIN * before else 0
            if not loss < LEAST_GAIN * before or little > 1:
                break
        return theta, made, step

    def _trace(self, theta: Any, batch: Batch) -> None:
        self._objective.prepare_jacobian(theta, batch)
        self._jacobian, self._residuals = (
            tf.function(function, autograph=False).get_concrete_function(theta, batch)
            for function in (self._objective.jacobian, self._objective.residuals)
        )

    def _step(self, theta: Array, batch: Batch, before: float) -> tuple[Array, float, LastStep]:
        """Return θ after a step, the loss there, and the step."""
        direction = self._direction(theta, batch)
        for halvings in range(self._method.halvings):
            size = 0.5**halvings
            moved = (theta - size * direction).astype(theta.dtype)
            loss = self._loss(moved, batch)
            if loss < before:
                return moved, loss, LastStep(direction, size)
        return theta, before, LastStep(direction, 0.0)

    def _direction(self, theta: Array, batch: Batch) -> Array:
        """Return J⁺ r over the rows of all ranks, at the places of θ: [p]."""
        factor = self.factor(theta, batch)
        cutoff = self._method.cutoff_in(theta.dtype)
        solution = self._communicator.on_root(lambda: least_squares(factor, cutoff))
        return self.spread(solution[None])[0]

    def spread(self, rows: Array) -> Array:
        """Return values of the parameters solved for as rows of all: [K, q] -> [K, p] (local)."""
        return np.asarray(self._layout.spread(tf.constant(rows)).numpy())

    def factor(self, theta: Array, batch: Batch) -> Array:
        """Return R of [J r] = Q R over the rows of all ranks, on the first rank (collective)."""

        def factor_here() -> Any:
            residuals, jacobian = self._jacobian(tf.constant(theta), batch)
            rows = np.concatenate([j.numpy() for j in jacobian], axis=1).T
            r = np.concatenate([each.numpy() for each in residuals])
            return np.linalg.qr(np.column_stack([rows, r]).astype(np.float64), mode="r")

        parts: list[Any] = self._communicator.allgather_object(
            together(self._communicator, factor_here)
        )
        if len(parts) > 1 and self._communicator.rank == 0:
            return np.asarray(np.linalg.qr(np.vstack(parts), mode="r"))
        return np.asarray(parts[0])

    def _loss(self, theta: Array, batch: Batch) -> float:
        def loss_here() -> float:
            residuals = self._residuals(tf.constant(theta), batch)
            return sum(float(np.sum(np.square(r.numpy(), dtype=np.float64))) for r in residuals)

        return sum(self._communicator.allgather_object(together(self._communicator, loss_here)))
