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
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.together import Ended, check_ended, together
from sciml_par.training.points.feed import Batch

Array = npt.NDArray[Any]

_LITTLE_GAIN = 0.5
"""Two whole steps that leave more than this share of the loss are the last ones."""


class GaussNewton:
    """Solves for the output layers of the networks of a stack, one after another."""

    def __init__(self, stack: Stack, communicator: Communicator) -> None:
        problem, network = stack.problem, stack.network
        self._layout, self._problem = stack.layout.of_linear(), problem
        self._objective = MemberObjective(
            partial(field_of, problem, network),
            stack.terms,
            layout=stack.layout,
            jacobians=jacobians_of(problem, network, self._layout),
        )
        self._jacobian: Any = None
        self._residuals: Any = None
        self._communicator, self._method = communicator, LeastSquares()

    def begin(self, theta: Array, batch: Batch, steps: int, *, given: bool) -> Array:
        """Return θ: [p] at which steps begin, with unknowns at their start (collective).

        u is a constant that suits the conditions, unless a start is `given`, then what fits the
        unknowns: with both free, a step from afar may lead to other unknowns, such as the energy
        of the ground state.
        """
        self._trace_once(theta, batch)
        if not given:
            theta = self._constant(theta, batch)
        if not self._layout.unknowns:
            return theta
        if not np.any(self._direction(theta, batch, held=True)):  # as of an eigenfunction
            rng = np.random.default_rng(0)
            for part in self._linear(theta):
                part[...] = rng.normal(scale=len(part) ** -0.5, size=part.shape)
        return self.solve(theta, batch, steps, held=True)[0]

    def _linear(self, theta: Array) -> list[Array]:
        """Return views of θ: kernel and bias of the output layer."""
        parts = np.split(theta, np.cumsum(self._layout.sizes)[:-1])
        shapes = self._layout.shapes
        return [parts[i].reshape(shapes[i]) for i in self._layout.linear or ()]

    def _constant(self, theta: Array, batch: Batch) -> Array:
        """Return θ: [p] of the constant u for which linear conditions have the least squares."""
        m, first = self._linear(theta)[1].size, len(self._problem.residuals)
        factors = [np.zeros(m), *np.eye(m), *-np.eye(m)]

        def equations_here() -> Array:
            found = np.zeros((m, m + 1))
            moved = [theta.copy() for _ in factors]
            for each, constant in zip(moved, factors, strict=True):
                self._linear(each)[1][...] = constant
            terms = [self._residuals(tf.constant(each), batch)[first:] for each in moved]
            for residuals in zip(*terms, strict=True):
                zero, *others = (r.numpy().astype(np.float64) for r in residuals)
                ahead, back = np.reshape([r - zero for r in others], [2, m, -1])
                if np.isfinite(ahead + back).all() and np.allclose(ahead, -back):
                    found += ahead @ np.column_stack([ahead.T, -zero])
            return found

        here = together(self._communicator, equations_here)
        equations = np.sum(self._communicator.allgather_object(here), axis=0)
        theta = theta.copy()
        self._linear(theta)[1][...] = np.linalg.lstsq(equations[:, :m], equations[:, m], 1e-10)[0]
        return theta

    def solve(
        self,
        theta: Array,
        batch: Batch,
        steps: int,
        *,
        held: bool = False,
        ended: Ended | None = None,
    ) -> tuple[Array, int, LastStep]:
        """Return θ: [p] after so many steps, their number, and the last one (collective).

        After fewer, if the loss falls no further. held : whether unknowns stay as they are. ended :
        asked before each step, which then raises `EndedError`.
        """
        self._trace_once(theta, batch)
        loss, little, made = self._loss(theta, batch), 0, 0
        step = LastStep(np.zeros_like(theta), 1.0)
        while made < steps:
            check_ended(ended, self._communicator)
            before, made = loss, made + 1
            theta, loss, step = self._step(theta, batch, before, held)
            # Whole steps that gain little have come to rounding, or to what the features can.
            little = little + 1 if step.size == 1.0 and loss > _LITTLE_GAIN * before else 0
            if not loss < LEAST_GAIN * before or little > 1:
                break
        return theta, made, step

    def _trace_once(self, theta: Array, batch: Batch) -> None:
        if self._jacobian is None:
            together(self._communicator, lambda: self._trace(tf.constant(theta), batch))

    def _trace(self, theta: Any, batch: Batch) -> None:
        self._objective.prepare_jacobian(theta, batch)
        self._jacobian, self._residuals = (
            tf.function(function, autograph=False).get_concrete_function(theta, batch)
            for function in (self._objective.jacobian, self._objective.residuals)
        )

    def _step(
        self, theta: Array, batch: Batch, before: float, held: bool
    ) -> tuple[Array, float, LastStep]:
        """Return θ after a step, the loss there, and the step."""
        direction = self._direction(theta, batch, held)
        for halvings in range(self._method.halvings):
            size = 0.5**halvings
            moved = (theta - size * direction).astype(theta.dtype)
            loss = self._loss(moved, batch)
            if loss < before:
                return moved, loss, LastStep(direction, size)
        return theta, before, LastStep(direction, 0.0)

    def _direction(self, theta: Array, batch: Batch, held: bool) -> Array:
        """Return J⁺ r over the rows of all ranks, at the places of θ: [p]."""
        factor = self.factor(theta, batch)
        cutoff, q = self._method.cutoff_in(theta.dtype), factor.shape[1] - 1
        count = self._layout.size_of_unknowns if held else 0
        free = [*range(q - count), q]

        def solution_on_root() -> Array:
            with threads(1):
                return least_squares(factor[:, free], cutoff)

        solution = self._communicator.on_root(solution_on_root)
        return self.spread(np.pad(solution, (0, count))[None])[0]

    def spread(self, rows: Array) -> Array:
        """Return values of the parameters solved for as rows of all: [K, q] -> [K, p] (local)."""
        return np.asarray(self._layout.spread(tf.constant(rows)).numpy())

    def factor(self, theta: Array, batch: Batch) -> Array:
        """Return R of [J r] = Q R over the rows of all ranks, on the first rank (collective).

        BLAS has one thread, so that the digits do not depend on the number of cores.
        """
        self._trace_once(theta, batch)

        def factor_here() -> Any:
            residuals, jacobian = self._jacobian(tf.constant(theta), batch)
            rows = np.concatenate([j.numpy() for j in jacobian], axis=1).T
            r = np.concatenate([each.numpy() for each in residuals])
            with threads(1):
                return np.linalg.qr(np.column_stack([rows, r]).astype(np.float64), mode="r")

        parts: list[Any] = self._communicator.allgather_object(
            together(self._communicator, factor_here)
        )
        if len(parts) > 1 and self._communicator.rank == 0:
            with threads(1):
                return np.asarray(np.linalg.qr(np.vstack(parts), mode="r"))
        return np.asarray(parts[0])

    def _loss(self, theta: Array, batch: Batch) -> float:
        def loss_here() -> float:
            residuals = self._residuals(tf.constant(theta), batch)
            return sum(float(np.sum(np.square(r.numpy(), dtype=np.float64))) for r in residuals)

        return sum(self._communicator.allgather_object(together(self._communicator, loss_here)))
