"""Functions of a few parameters as objectives, and an optimizer's steps on them, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from engine import At, ParameterLayout
from one_rank import GivenObjective

Tensor = Any
Function = Callable[..., Tensor]


class FunctionObjective(GivenObjective):
    """L(θ) = f(θ, batch) for every row of θ: [M, p]; it counts how often it is evaluated."""

    def __init__(self, function: Function, size: int) -> None:
        self.layout = ParameterLayout(shapes=((size,),), names=("x",))
        self.count = tf.Variable(0.0, dtype=tf.float64)
        self._function = function

    def value(self, parameters: Tensor, batch: Any) -> Tensor:
        return self._function(parameters, batch)[:, None]

    def value_and_gradient(self, parameters: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        self.count.assign_add(1.0)
        return super().value_and_gradient(parameters, batch)


class Run:
    """Steps of an optimizer on a function, each by one call of one compiled function.

    Attributes
    ----------
    parameters, state : where it stands, θ: [M, p] first.
    losses : before every step, [M] each.
    evaluations : so far.
    """

    def __init__(self, optimizer: Any, function: Function, *, same_points: bool = True) -> None:
        self._optimizer, self._function, self._same = optimizer, function, same_points
        self._objective: FunctionObjective | None = None

    def start(self, parameters: Any) -> Run:
        self.parameters = tf.constant(np.atleast_2d(parameters), tf.float64)
        if self._objective is None:
            self._objective = FunctionObjective(self._function, self.parameters.shape[1])
            self._step = tf.function(self._one, jit_compile=True, autograph=False)
        self._objective.count.assign(0.0)
        self.state = self._optimizer.init(self._objective, self.parameters)
        self.losses: list[np.ndarray] = []
        self.number = 0
        return self

    def go(self, steps: int, *, batch: Any = 0.0, running: Any = None) -> Run:
        everyone = [True] * self.parameters.shape[0]
        mask = tf.constant(everyone if running is None else running)
        for _ in range(steps):
            self.number += 1
            self.parameters, self.state, losses = self._step(
                self.parameters,
                self.state,
                tf.constant(batch, tf.float64),
                tf.constant(self.number),
                mask,
            )
            self.losses.append(losses.numpy()[:, 0])
        return self

    def until(self, loss: float, *, member: int, most: int) -> Run:
        """Steps of one member until it has less than this loss."""
        while self.number < most and (not self.losses or self.losses[-1][member] >= loss):
            self.go(1, running=only(member))
        return self

    @property
    def evaluations(self) -> int:
        assert self._objective is not None
        return int(self._objective.count.numpy())

    @property
    def theta(self) -> np.ndarray:
        return np.asarray(self.parameters.numpy())

    def _one(self, parameters: Any, state: Any, batch: Any, number: Any, running: Any) -> Any:
        rate = tf.ones([parameters.shape[0], 1], parameters.dtype)
        at = At(number, rate, running=running, same_points=self._same)
        return self._optimizer.step(self._objective, parameters, state, batch, at)


def rosenbrock(x: Tensor) -> Tensor:
    """The chain of Rosenbrock's function, with its minimum 0 at (1, …, 1): [M, p] -> [M]."""
    a, b = x[:, :-1], x[:, 1:]
    return tf.reduce_sum(100 * (b - a * a) ** 2 + (1 - a) ** 2, axis=1)


def quadratic(x: Tensor) -> Tensor:
    """½ Σ λ_i (x_i − 1)², λ from 1 to 1000: [M, p] -> [M]."""
    curvatures = tf.constant(np.geomspace(1, 1000, x.shape[1]), x.dtype)
    return 0.5 * tf.reduce_sum(curvatures * (x - 1) ** 2, axis=1)


def barrier(x: Tensor) -> Tensor:
    """Σ x − log(1 − |x|²), no number outside of the unit ball; minimum at −t, 1 = 2t/(1 − p t²)."""
    return tf.reduce_sum(x, axis=1) - tf.math.log(1 - tf.reduce_sum(x * x, axis=1))


def constant(x: Tensor) -> Tensor:
    return 0 * tf.reduce_sum(x, axis=1) + 2


SIZE = 10
BARRIER_MINIMUM = -(np.sqrt(1 + SIZE) - 1) / SIZE
FUNCTIONS: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    *[("quadratic", quadratic)] * 3,
    *[("Rosenbrock", rosenbrock)] * 3,
    ("barrier", barrier),
    ("constant", constant),
    ("minimum", quadratic),
)
"""What each member minimizes: many cases are one compiled function."""
MEMBERS = len(FUNCTIONS)
STARTS = np.random.default_rng(3).normal(size=(MEMBERS, SIZE))
STARTS[3:6] = STARTS[:3]
STARTS[6], STARTS[8] = 0.3, 1.0


def members(name: str) -> list[int]:
    return [j for j, (each, _) in enumerate(FUNCTIONS) if each == name]


def only(*chosen: int) -> list[bool]:
    return [j in chosen for j in range(MEMBERS)]


def all_functions(x: Tensor, batch: Any = None) -> Tensor:
    """Each member's own function: [M, p] -> [M]."""
    return tf.concat([f(x[j : j + 1]) for j, (_, f) in enumerate(FUNCTIONS)], axis=0)


def moving(x: Tensor, batch: Tensor) -> Tensor:
    """½ |x − c|² with c from the batch."""
    return 0.5 * tf.reduce_sum((x - batch) ** 2, axis=1)
