"""What quasi-Newton methods share: a direction, a line search, and what is learned from a step."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sciml_par._checks import check_number, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.loss.known import Gradient
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report
from sciml_par.training.optimizers.quasi_newton.line_search import Found, strong_wolfe

Tensor = Any
Memory = Any


class Pair(NamedTuple):
    """What one step has shown of the curvature. Members that are not `good` learn nothing."""

    step: Tensor  # s = θ_new − θ, [M, p]
    change: Tensor  # y = ∇L(θ_new) − ∇L(θ) on the points of this step, [M, p]
    length: Tensor  # α, [M]
    gradient: Tensor  # ∇L(θ), [M, p]
    fresh: Tensor  # whether there was no memory before the step, which went along −∇L, [M]
    good: Tensor  # whether sᵀy is positive beyond rounding, [M]


class State(NamedTuple):
    """Where M members stand between two steps."""

    parameters: Tensor  # the θ of losses and gradient, [M, p]; NaN before the first step
    losses: Tensor  # the terms of the loss there, [M, T]
    gradient: Tensor  # ∇L there, [M, p]
    length: Tensor  # α of the last step, [M]; 0 where it found no better point
    fresh: Tensor  # 1 for members without a memory, [M]
    stuck: Tensor  # 1 for members that no step can improve, [M]
    memory: Memory


class _Start(NamedTuple):
    """Where a step begins: values at θ, where it leads, and who goes along −∇L."""

    losses: Tensor
    gradient: Tensor
    direction: Tensor
    fresh: Tensor


class QuasiNewton(Optimizer):
    """A method that goes along −H ∇L, with H from the gradients of the steps before.

    A frozen dataclass with the fields below. A step costs one evaluation of loss and gradient for
    every point that its line search tries, most often one, since the values at the point where a
    step ends serve the next one. Where the points change with the steps, as with minibatches, a
    step costs one evaluation more: it begins with the loss and the gradient on its own points, so
    that its line search and its pair (s, y) are of one and the same function.

    Where a line search finds no better point, the parameters stay and the memory is forgotten; the
    next step goes along −∇L. If that fails too, the member is stuck.
    """

    default_steps: ClassVar[int] = 10_000
    second_order: ClassVar[bool] = True

    sufficient_decrease: float
    curvature: float
    evaluations: int

    @abstractmethod
    def start(self, parameters: Tensor) -> Memory:
        """Return a memory from which nothing is read before the first pair has come (local)."""

    @abstractmethod
    def direction(self, memory: Memory, gradient: Tensor, number: Tensor) -> Tensor:
        """Return −H ∇L for members that have a memory, [M, p] (local)."""

    @abstractmethod
    def learn(self, memory: Memory, pair: Pair, number: Tensor) -> Memory:
        """Return the memory with the pair of step `number` (local).

        What fresh members had in it does not count any more.
        """

    def init(self, objective: Objective, parameters: Tensor) -> State:
        members = parameters.shape[0]
        return State(
            parameters=tf.fill(parameters.shape, tf.constant(float("nan"), parameters.dtype)),
            losses=tf.zeros([members, objective.term_count], parameters.dtype),
            gradient=tf.zeros_like(parameters),
            length=tf.zeros([members], parameters.dtype),
            fresh=tf.ones([members], tf.int32),
            stuck=tf.zeros([members], tf.int32),
            memory=self.start(parameters),
        )

    def report(self, state: State) -> Report:
        """Return the step length and |∇L|, and which members are stuck (local)."""
        measures = {"step length": state.length, "|gradient|": tf.norm(state.gradient, axis=1)}
        return Report(measures, tf.cast(state.stuck, tf.bool))

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        running = tf.ones_like(state.fresh, tf.bool) if at.running is None else at.running
        start, found = self._searched(objective, parameters, state, batch, at, running)
        losses, gradient, direction, fresh = start
        moved = found.length > 0
        end = tf.where(moved[:, None], parameters + found.length[:, None] * direction, parameters)
        s, y = end - parameters, found.gradient - gradient
        eps = np.finfo(s.dtype.as_numpy_dtype).eps
        good = moved & (dot(s, y) > eps * tf.norm(s, axis=1) * tf.norm(y, axis=1))
        pair = Pair(s, y, found.length, gradient, fresh, good)
        # On other points the next step may succeed.
        stuck = ~moved & fresh & at.same_points
        after = State(
            parameters=end,
            losses=found.losses,
            gradient=found.gradient,
            length=found.length,
            fresh=tf.cast(~moved | (fresh & ~good), tf.int32),
            stuck=tf.cast(stuck, tf.int32),
            memory=(),
        )
        after = tf.nest.map_structure(
            lambda new, old: tf.where(_like(running, new), new, old),
            after,
            state._replace(memory=()),
        )
        return end, after._replace(memory=self.learn(state.memory, pair, at.number)), losses

    def _searched(
        self,
        objective: Objective,
        parameters: Tensor,
        state: State,
        batch: Batch,
        at: At,
        running: Tensor,
    ) -> tuple[_Start, Found]:
        """Return the start and the direction of the step, and the result of its line search.

        It has two turns where values at θ are missing: the first evaluates there, the second
        searches. As turns of one loop they have one evaluation to compile. All ranks have the same
        parameters, and so make the same turns.
        """
        known = tf.reduce_all(state.parameters == parameters, axis=1) & at.same_points
        # A stuck member would only use up the evaluations of the others.
        searching = running & ~(known & tf.cast(state.stuck, tf.bool))
        missing = tf.cast(tf.reduce_any(running & ~known), tf.int32)

        def evaluate(point: Tensor) -> tuple[Tensor, Tensor]:
            known = objective.evaluate(Gradient, point, batch)
            return known.terms, known.gradient

        def turn(left: Tensor, start: _Start, _found: Found) -> tuple[Tensor, _Start, Found]:
            only_here = left > 0
            direction, first, fresh = self._direction(state, start.gradient, at.number)
            direction = objective.ranks.from_rank(direction)
            direction = tf.where(only_here, tf.zeros_like(direction), direction)
            found = strong_wolfe(
                evaluate,
                parameters,
                direction,
                start.losses,
                start.gradient,
                first,
                running=searching,
                sufficient_decrease=self.sufficient_decrease,
                curvature=self.curvature,
                most=self.evaluations,
                only_here=only_here,
                agreed=objective.ranks.from_rank,
            )
            # Members whose values are known keep them to the bit, whatever the others need.
            new = (only_here & ~known)[:, None]
            losses = tf.where(new, found.losses, start.losses)
            gradient = tf.where(new, found.gradient, start.gradient)
            return left - 1, _Start(losses, gradient, direction, fresh), found

        zero, no = tf.zeros_like(state.length), tf.zeros_like(running)
        nothing = _Start(state.losses, state.gradient, tf.zeros_like(parameters), no)
        begin = (missing, nothing, Found(zero, state.losses, state.gradient, no, tf.constant(0)))
        _, start, found = tf.while_loop(lambda left, *_: left >= 0, turn, begin)
        return start, found

    def _direction(
        self, state: State, gradient: Tensor, number: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the direction [M, p], the first length to try [M], and who goes along −∇L [M]."""
        direction = self.direction(state.memory, gradient, number)
        # By rounding, a direction may lead upwards or be no number at all.
        fresh = tf.cast(state.fresh, tf.bool) | ~(dot(direction, gradient) < 0)
        direction = tf.where(fresh[:, None], -gradient, direction)
        # Nothing is known of the scale before the first pair: the step has length 1 in θ.
        norm = tf.norm(gradient, axis=1)
        one = tf.ones_like(norm)
        first = tf.where(fresh & (norm > 0), one / tf.where(norm > 0, norm, one), one)
        return direction, first, fresh

    def _check_line_search(self) -> None:
        name = type(self).__name__
        check_number(name, "curvature", self.curvature, "in (0, 1)", lambda c: 0 < c < 1)
        least = self.sufficient_decrease
        check_number(name, "sufficient_decrease", least, "in (0, 0.5)", lambda c: 0 < c < 0.5)
        if least >= self.curvature:
            raise InputError(
                f"{name}: expected sufficient_decrease < curvature, without which no step need "
                f"satisfy both; got {least!r} and {self.curvature!r}."
            )
        checked_integer(self.evaluations, f"{name}: evaluations", least=1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return Σ a b of each member, [M]."""
    return tf.reduce_sum(a * b, axis=1)


def _like(mask: Tensor, tensor: Tensor) -> Tensor:
    """Return a mask of the members [M] with as many axes as the tensor."""
    return tf.reshape(mask, [-1] + [1] * (tensor.shape.rank - 1))
