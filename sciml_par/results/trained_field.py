"""The field u(x; θ) of trained networks, as a function of their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._compiled_function import CompiledFunction
from sciml_par._tensorflow import tf

Tensor = Any
Array = npt.NDArray[Any]
Function = Callable[[Sequence[Tensor], Tensor], Tensor]


class TrainedField:
    """u(x; θ) for all members whose networks, and what problems make of these, are alike.

    Parameters
    ----------
    make : gives the function (parameters, x: [n, d]) -> u: [n, m], which is pure, and the Keras
        model of which it is made; called when one of them is needed.
    """

    def __init__(self, make: Callable[[], tuple[Function, Any]]) -> None:
        self._make = make
        self._programs: dict[Any, Any] = {}

    @property
    def model(self) -> Any:
        """The Keras model; its own weights are those of one of the members, or of none."""
        return self._made[1]

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the parameters, in order."""
        return tuple(tuple(map(int, v.shape)) for v in self.model.trainable_variables)

    def at(self, weights: Array, x: Array) -> Array:
        """u with weights [p] at x: [n, d], [n, m], operation by operation."""
        points = tf.constant(x, weights.dtype.name)
        return np.asarray(self._of_one(tf.constant(weights), points).numpy())

    def of_members(self, weights: Array, x: Array) -> Array:
        """u with the weights [M, p] of M members at x: [n, d], [M, n, m]; compiled."""
        given = tf.constant(weights), tf.constant(x, weights.dtype.name)
        return np.asarray(self._program(*given)(*given).numpy())

    def parameters(self, flat: Tensor) -> list[Tensor]:
        """The tensors of a vector [p]."""
        parts = tf.split(flat, [math.prod(shape) for shape in self.shapes])
        return [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]

    @cached_property
    def _made(self) -> tuple[Function, Any]:
        return self._make()

    def __deepcopy__(self, memo: Any) -> TrainedField:
        return self  # it never changes

    def _program(self, *given: Tensor) -> Any:
        """Compiled for arguments of these shapes; what is compiled is made before.

        Called directly, TensorFlow would warn of tracing where there are results of many trainings.
        """
        specs = tuple(tf.TensorSpec(each.shape, each.dtype) for each in given)
        if self._made and specs not in self._programs:
            self._programs[specs] = CompiledFunction(self._of_all, specs)
        return self._programs[specs]

    def _of_one(self, flat: Tensor, x: Tensor) -> Tensor:
        function, _ = self._made
        return function(self.parameters(flat), x)

    def _of_all(self, weights: Tensor, x: Tensor) -> Tensor:
        if weights.shape[0] == 1:
            return self._of_one(weights[0], x)[None]
        return tf.vectorized_map(lambda flat: self._of_one(flat, x), weights)
