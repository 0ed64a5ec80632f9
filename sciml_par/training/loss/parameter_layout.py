"""How the parameters of a network, and the unknowns of a problem, lie in one flat vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.problems.unknowns.unknowns import Unknown

Tensor = Any


@dataclass(frozen=True)
class ParameterLayout:
    """The tensors of which a vector of parameters is made, in order.

    Attributes
    ----------
    shapes : of the tensors.
    names : of the tensors, as Keras calls the variables; for messages and for optimizers that
        treat some of them apart.
    unknowns : how many of the tensors, the last ones, are parameters of unknowns of the problem.
    """

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    unknowns: int = 0

    @classmethod
    def of(
        cls, variables: Sequence[Any], unknowns: Mapping[str, Unknown] | None = None
    ) -> ParameterLayout:
        """Return the layout of a network's trainable variables, and then of unknowns."""
        sought = unknowns or {}
        shapes = [tuple(map(int, v.shape)) for v in variables]
        names = [str(getattr(v, "path", None) or v.name) for v in variables]
        return cls(
            (*shapes, *(unknown.shape for unknown in sought.values())),
            (*names, *(f"unknowns/{name}" for name in sought)),
            len(sought),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each tensor has."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """How many numbers p there are in all."""
        return sum(self.sizes)

    @property
    def size_of_unknowns(self) -> int:
        """How many numbers q at the end of the vector are of unknowns."""
        return sum(self.sizes[len(self.sizes) - self.unknowns :])

    @property
    def size_of_network(self) -> int:
        """How many numbers at the beginning are weights of the network: p − q."""
        return self.size - self.size_of_unknowns

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of these shapes as one vector [p]."""
        return tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors of a vector [p]."""
        parts = tf.split(flat, self.sizes)
        return [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]
