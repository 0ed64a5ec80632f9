"""Many small tensors as flat buffers of one element type, with one collective for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.arguments import list_of, tensor_of
from sciml_par.parallel.tensors.memory import eager_tensor
from sciml_par.parallel.tensors.packing import can_pack, packed, shape_digest, shape_of, unpacked

BUCKET_BYTES = 64 << 20
"""The longest flat buffer. Longer ones gain no speed and double the memory."""

Tensor = Any

Kind = tuple[Any, tuple[int, ...] | None]
"""A tensor's element type and shape; the shape is None if the graph does not know it."""


@dataclass(frozen=True)
class TensorBundle:
    """Tensors for as few transfers as possible."""

    tensors: list[Tensor]
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, values: Sequence[Any], where: str) -> TensorBundle:
        """Return a bundle of `values` for the collective `where`."""
        values = list_of(values, where)
        # In Python, looking at a tensor takes as long as carrying some hundred elements of it.
        if set(map(type, values)) == {eager_tensor()}:
            return cls(values, tuple([_kind_of_eager(x) for x in values]))
        tensor_type = tf.Tensor
        tensors = [x if isinstance(x, tensor_type) else tensor_of(x, where) for x in values]
        return cls(tensors, tuple(map(_kind_of, tensors)))

    def called(self, name: str | None) -> str | None:
        """Return `name` with a digest of all shapes, which a flat buffer does not show."""
        if len(self.tensors) < 2:
            return name
        label = _label(self.kinds)
        return label if name is None else f"{name} ({label})"


@lru_cache(maxsize=64)
def _label(kinds: tuple[Kind, ...]) -> str:
    return f"{len(kinds)} tensors of shapes {shape_digest(shape for _, shape in kinds)}"


def fuse(collective: Callable[[Tensor], Tensor], bundle: TensorBundle) -> list[Tensor]:
    """Apply an element-wise collective to all tensors, one buffer at a time."""

    def apply(tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) == 1:
            return [collective(tensors[0])]
        if not can_pack():
            return as_one_vector(collective, tensors)
        shapes = tuple([x._shape_tuple() for x in tensors])
        return unpacked(collective(packed(tensors, shapes)), shapes)

    return fuse_lists(apply, bundle)


def fuse_lists(
    collective: Callable[[list[Tensor]], list[Tensor]], bundle: TensorBundle
) -> list[Tensor]:
    """Apply a collective on lists of tensors of one type to all tensors, as `fuse` does."""
    return by_groups(bundle.tensors, _buckets(bundle.kinds), collective)


def by_groups(
    values: Sequence[Any],
    groups: Iterable[Sequence[int]],
    function: Callable[[list[Any]], Iterable[Any]],
) -> list[Any]:
    """Return the values; in place of those of each group of indices, `function` of them."""
    results = list(values)
    for indices in groups:
        for i, result in zip(indices, function([values[i] for i in indices]), strict=True):
            results[i] = result
    return results


def _kind_of_eager(x: Tensor) -> Kind:
    return x._datatype_enum(), x._shape_tuple()  # the properties take ten times as long


def _kind_of(x: Tensor) -> Kind:
    if x.__class__ is eager_tensor():
        return _kind_of_eager(x)
    return x.dtype, shape_of(x) if x.shape.is_fully_defined() else None


@lru_cache(maxsize=64)
def _buckets(kinds: tuple[Kind, ...]) -> list[list[int]]:
    """Return the indices of each buffer's tensors, of one type; types in order of appearance."""
    by_type: dict[Any, list[list[int]]] = {}
    room: dict[Any, int] = {}
    alone: list[list[int]] = []
    for i, (kind, shape) in enumerate(kinds):
        dtype = tf.as_dtype(kind)
        if shape is None:
            alone.append([i])
            continue
        nbytes = math.prod(shape) * dtype.size
        if room.get(dtype, 0) < nbytes or dtype not in by_type:
            by_type.setdefault(dtype, []).append([])
            room[dtype] = BUCKET_BYTES
        by_type[dtype][-1].append(i)
        room[dtype] -= nbytes
    return [bucket for buckets in by_type.values() for bucket in buckets] + alone


def as_one_vector(
    collective: Callable[[Tensor], Tensor], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """Apply a collective to the vector of all elements."""
    flat = collective(tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0))
    parts = tf.split(flat, [t.shape.num_elements() for t in tensors])
    return [tf.reshape(part, t.shape) for part, t in zip(parts, tensors, strict=True)]
