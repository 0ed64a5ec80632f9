"""Eager tensors in host memory as one flat tensor, and back; shapes of tensors.

NumPy is several times as fast as TensorFlow here, whose operations take as long as a short
transfer.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sciml_par._tensorflow import is_recorded, tf
from sciml_par.parallel.tensors.buffer_pool import result_memory
from sciml_par.parallel.tensors.memory import has_gpus, tensor_on

Tensor = Any
Shape = tuple[int, ...]


def can_pack() -> bool:
    """Return whether tensors are eager, in host memory, and not recorded."""
    return tf.executing_eagerly() and not has_gpus() and not is_recorded()


def packed(tensors: Sequence[Tensor], shapes: tuple[Shape, ...]) -> Tensor:
    """Return the elements of all `tensors`, of one type, as one vector."""
    if _are_rows_of_one(shapes):
        whole = tf.raw_ops.ConcatV2(values=tensors, axis=_first_axis())
        return whole if len(shapes[0]) == 1 else tf.reshape(whole, [-1])
    # NumPy must copy TensorFlow's scalars.
    arrays = [
        np.asarray(x if shape else x.numpy()) for x, shape in zip(tensors, shapes, strict=True)
    ]
    count, dtype = sum(map(math.prod, shapes)), arrays[0].dtype
    flat, _ = result_memory().array((count,), dtype, count * dtype.itemsize)
    np.concatenate(arrays, axis=None, out=flat)
    return tensor_on(flat)


def unpacked(flat: Tensor, shapes: tuple[Shape, ...]) -> list[Tensor]:
    """Return the `packed` tensors of these shapes; some may share the memory of `flat`."""
    parts: list[Tensor]
    # One operation is several times as fast as one for each tensor.
    if len(set(shapes)) == 1:
        whole = flat if shapes[0] == () else tf.reshape(flat, [len(shapes), *shapes[0]])
        parts = tf.raw_ops.Unpack(value=whole, num=len(shapes), axis=0)
        return parts
    if all(len(shape) == 1 for shape in shapes):
        sizes, axis = _constants(tuple(length for (length,) in shapes))
        parts = tf.raw_ops.SplitV(value=flat, size_splits=sizes, axis=axis, num_split=len(shapes))
        return parts
    whole, results, begin = np.asarray(flat), [], 0
    for shape in shapes:
        end = begin + math.prod(shape)
        results.append(tensor_on(whole[begin:end].reshape(shape)))
        begin = end
    return results


@lru_cache(maxsize=64)
def _are_rows_of_one(shapes: tuple[Shape, ...]) -> bool:
    """Return whether tensors of these shapes are the rows of one tensor."""
    return all(shapes) and len({shape[1:] for shape in shapes}) == 1


@lru_cache(maxsize=1)
def _first_axis() -> Tensor:
    return tf.constant(0)


@lru_cache(maxsize=64)
def _constants(lengths: Shape) -> tuple[Tensor, Tensor]:
    return tf.constant(lengths, tf.int64), _first_axis()


def shape_digest(shapes: Iterable[Any]) -> str:
    """Return eight digits that differ if the shapes or their order differ."""
    return f"{zlib.crc32(repr([str(shape) for shape in shapes]).encode()):08x}"


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the known shape of a tensor."""
    return tuple(x.shape.as_list())
