"""How the parameters of a network, and the unknowns of a problem, lie in one flat vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.unknowns.unknowns import Unknown

Tensor = Any


@dataclass(frozen=True)
class ParameterLayout:
    """The tensors of which a vector of parameters is made, in order."""

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]  # as Keras calls the variables
    unknowns: int = 0  # how many of the tensors, the last ones, are of unknowns of the problem
    frozen: tuple[int, ...] = ()  # numbers of the tensors that no step changes
    linear: tuple[int, ...] | None = None  # of those in which the network is linear, if known
    compact: bool = False  # whether a Jacobian has no rows of frozen tensors, or rows of zeros

    @classmethod
    def of(
        cls,
        variables: Sequence[Any],
        unknowns: Mapping[str, Unknown] | None = None,
        *,
        frozen: tuple[int, ...] = (),
        linear: tuple[int, ...] | None = None,
    ) -> ParameterLayout:
        """Return the layout of a network's trainable variables, and then of unknowns."""
        sought = unknowns or {}
        shapes = [tuple(map(int, v.shape)) for v in variables]
        names = [str(getattr(v, "path", None) or v.name) for v in variables]
        return cls(
            (*shapes, *(unknown.shape for unknown in sought.values())),
            (*names, *(f"unknowns/{name}" for name in sought)),
            len(sought),
            frozen,
            linear,
        )

    def changed(self, before: Tensor, after: Tensor) -> Tensor:
        """Return θ after a step, [M, p], with the frozen tensors as before it."""
        if not self.frozen:
            return after
        marks = [np.full(size, i in self.frozen) for i, size in enumerate(self.sizes)]
        return tf.where(tf.constant(np.concatenate(marks)), before, after)

    def of_linear(self) -> ParameterLayout:
        """Return the layout of which all is frozen but linear tensors and unknowns.

        A Jacobian has rows of these alone.
        """
        free = {*(self.linear or ()), *range(len(self.shapes) - self.unknowns, len(self.shapes))}
        frozen = tuple(i for i in range(len(self.shapes)) if i not in free or i in self.frozen)
        return replace(self, frozen=frozen, compact=True)

    @property
    def rows(self) -> list[int]:
        """The numbers of the tensors that have rows in a Jacobian."""
        return [i for i in range(len(self.shapes)) if not (self.compact and i in self.frozen)]

    def only_rows(self, by_all: Tensor) -> Tensor:
        """Return the rows of a Jacobian of derivatives by all parameters, [p, n]."""
        if not self.compact:
            return by_all
        parts = tf.split(by_all, self.sizes, axis=0)
        return tf.concat([parts[i] for i in self.rows], axis=0)

    def flat_rows(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return derivatives by the network's tensors as one vector; zero for frozen ones."""
        chosen = [i for i in self.rows if i < len(tensors)]
        parts = [tf.reshape(tensors[i], [-1]) for i in chosen]
        zero = [
            tf.zeros_like(p) if i in self.frozen else p for i, p in zip(chosen, parts, strict=True)
        ]
        return tf.concat(zero, axis=0)

    def spread(self, values: Tensor) -> Tensor:
        """Return numbers [M, q] in the rows of a Jacobian as a row of all parameters, [M, p]."""
        own = tf.split(values, [self.sizes[i] for i in self.rows], axis=1)
        found = dict(zip(self.rows, own, strict=True))
        none = [tf.zeros([values.shape[0], size], values.dtype) for size in self.sizes]
        return tf.concat([found.get(i, none[i]) for i in range(len(self.sizes))], axis=1)

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
        """Return tensors of these shapes as one vector [p]."""
        return tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors of a vector [p]; no derivative passes through the frozen ones."""
        parts = tf.split(flat, self.sizes)
        tensors = [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]
        return [tf.stop_gradient(t) if i in self.frozen else t for i, t in enumerate(tensors)]
