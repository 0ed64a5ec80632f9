"""How the parameters of a network, and the unknowns of a problem, lie in one flat vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    frozen : numbers of the tensors that no step changes.
    linear : numbers of the tensors in which the network is linear; None where they are not known.
    """

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    unknowns: int = 0
    frozen: tuple[int, ...] = ()
    linear: tuple[int, ...] | None = None

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
        return tf.where(tf.constant(self._marks(self.frozen)), before, after)

    def derivatives(self, by_all: Tensor, axis: int) -> Tensor:
        """Return derivatives by θ along an axis of size p, zero for the frozen tensors."""
        if not self.frozen:
            return by_all
        shape = [1] * by_all.shape.rank
        shape[axis] = self.size
        marks = tf.reshape(tf.constant(self._marks(self.frozen)), shape)
        return tf.where(marks, tf.zeros([], by_all.dtype), by_all)

    def solved(self) -> list[slice]:
        """Return where the numbers lie in which the network is linear, and the unknowns."""
        ends = np.cumsum([0, *self.sizes])
        first_unknown = len(self.shapes) - self.unknowns
        numbers = [*(self.linear or ()), *range(first_unknown, len(self.shapes))]
        return [slice(int(ends[i]), int(ends[i + 1])) for i in sorted(numbers)]

    def spread(self, values: Tensor) -> Tensor:
        """Return numbers [M, q] at the places of `solved`, zero elsewhere: [M, p]."""
        parts, at, taken = [], 0, 0
        for place in self.solved():
            count = place.stop - place.start
            parts += [_zeros(values, place.start - at), values[:, taken : taken + count]]
            at, taken = place.stop, taken + count
        return tf.concat([*parts, _zeros(values, self.size - at)], axis=1)

    def _marks(self, numbers: Sequence[int]) -> npt.NDArray[np.bool_]:
        return np.concatenate(
            [np.full(size, i in numbers) for i, size in enumerate(self.sizes)]
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
        """Return the tensors of a vector [p]; no derivative passes through the frozen ones."""
        parts = tf.split(flat, self.sizes)
        tensors = [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]
        return [tf.stop_gradient(t) if i in self.frozen else t for i, t in enumerate(tensors)]


def _zeros(like: Tensor, columns: int) -> Tensor:
    return tf.zeros([like.shape[0], columns], like.dtype)
