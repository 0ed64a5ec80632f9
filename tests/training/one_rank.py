"""What stands for an objective in tests of optimizers: functions that are given, on one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from engine import At

from sciml_par.training.loss.known import Gradient, Jacobian, LinearMap, Residuals, Value

Tensor = Any


class OneRank:
    """The collectives of a loss that no other rank shares."""

    rank, size = 0, 1

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def from_rank(self, tensor: Tensor, rank: int = 0) -> Tensor:
        return tensor

    def gather(self, rows: Tensor, counts: Any) -> Tensor:
        return rows

    def exchange(self, rows: Tensor, sent: Any, received: Any) -> Tensor:
        return rows


class GivenObjective:
    """An objective whose subclasses give `value`, or `residuals`, at θ: [M, p]."""

    ranks: Any = OneRank()
    term_count = 1

    def value(self, parameters: Tensor, batch: Any) -> Tensor:
        raise NotImplementedError

    def residuals(self, parameters: Tensor, batch: Any) -> list[Tensor]:
        raise NotImplementedError

    def jacobian(self, parameters: Tensor, batch: Any) -> list[Tensor]:
        raise NotImplementedError

    def value_and_gradient(self, parameters: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            losses = self.value(parameters, batch)
        return losses, tape.gradient(losses, parameters, unconnected_gradients="zero")

    def evaluate(self, kind: Any, parameters: Tensor, batch: Any) -> Any:
        kinds: dict[Any, Callable[[], Any]] = {
            Value: lambda: Value(self.value(parameters, batch)),
            Gradient: lambda: Gradient(*self.value_and_gradient(parameters, batch)),
            Residuals: lambda: Residuals(self.residuals(parameters, batch)),
            Jacobian: lambda: Jacobian(
                self.residuals(parameters, batch), self.jacobian(parameters, batch)
            ),
            LinearMap: lambda: self._linear_map(parameters, batch),
        }
        return kinds[kind]()

    def prepare(self, kind: Any, parameters: Tensor, batch: Any) -> None:
        pass

    def _linear_map(self, parameters: Tensor, batch: Any) -> LinearMap:
        slopes = self.jacobian(parameters, batch)

        def times(d: Tensor) -> list[Tensor]:
            return [tf.linalg.matvec(j, d, transpose_a=True) for j in slopes]

        def transposed_times(v: Any) -> Tensor:
            return tf.add_n([tf.linalg.matvec(j, x) for j, x in zip(slopes, v, strict=True)])

        return LinearMap(
            self.residuals(parameters, batch),
            times,
            transposed_times,
            lambda d: transposed_times(times(d)),
        )


class LeastSquares(GivenObjective):
    """|r(θ)|² for M members, r: [p] -> [K], as an objective of one rank."""

    def __init__(self, residual: Callable[[Tensor], Tensor], size: int) -> None:
        self._residual, self.size = residual, size

    def residuals(self, parameters: Any, batch: Any) -> list[Any]:
        return [tf.stack([self._residual(row) for row in tf.unstack(parameters)])]

    def jacobian(self, parameters: Any, batch: Any) -> list[Any]:
        slopes = []
        for row in tf.unstack(parameters):
            with tf.GradientTape() as tape:
                tape.watch(row)
                r = self._residual(row)
            found = tape.jacobian(r, row, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            slopes.append(tf.transpose(found))
        return [tf.stack(slopes)]

    def residuals_of_ranks(self, batch: Any) -> tuple[int, ...]:
        return (int(self._residual(tf.zeros([self.size], tf.float64)).shape[0]),)


def step_of(objective: Any, optimizer: Any) -> Callable[..., Any]:
    """(θ, state, batch) -> those of an optimizer after a step, as a graph that is not compiled."""

    def step(theta: Tensor, state: Any, batch: Any = ()) -> Any:
        at: Any = At(tf.constant(1), tf.ones([theta.shape[0], 1], theta.dtype), same_points=True)
        return optimizer.step(objective, theta, state, batch, at)

    return tf.function(step, autograph=False)
