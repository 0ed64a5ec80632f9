"""How the parameters of a network lie in one flat vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf

Tensor = Any


@dataclass(frozen=True)
class ParameterLayout:
    """The tensors of which a vector of parameters is made, in order.

    Attributes
    ----------
    shapes : of the tensors.
    names : of the tensors, as Keras calls the variables; for messages and for optimizers that
        treat some of them apart.
    """

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, variables: Sequence[Any]) -> ParameterLayout:
        """The layout of a network's trainable variables (local)."""
        return cls(
            tuple(tuple(map(int, v.shape)) for v in variables),
            tuple(str(getattr(v, "path", None) or v.name) for v in variables),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each tensor has."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """How many numbers p there are in all."""
        return sum(self.sizes)

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of these shapes as one vector [p] (local)."""
        return tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """The tensors of a vector [p] (local)."""
        parts = tf.split(flat, self.sizes)
        return [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]
