"""Rank-dependent data that every rank can compute for all, and the contexts of a collective."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError

MISMATCHES = (CollectiveMismatchError, tf.errors.FailedPreconditionError)
"""What ranks that differ raise in eager code, and in graphs."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES = ("bool", *FLOATS, *INTEGERS)
COMPLEX = ("complex64", "complex128")
MOVED = (*TYPES, *COMPLEX)
"""All that travel; complex numbers have no order, and so no Min and Max."""

Tensors = list[Any]
Function = Callable[..., Tensors]
"""Takes tensors and returns a list of tensors."""


def generator(rank: int, tag: str) -> np.random.Generator:
    """Random numbers that differ from rank to rank and from `tag` to `tag`."""
    return np.random.default_rng([rank, zlib.crc32(tag.encode())])


def normal(rank: int, shape: Sequence[int], tag: str) -> np.ndarray:
    """The float64 array of `rank`."""
    return generator(rank, tag).normal(size=shape)


def normals(shape: Sequence[int], tag: str) -> np.ndarray:
    """The float64 arrays of all ranks, [P, *shape]."""
    return np.stack([normal(rank, shape, tag) for rank in range(sp.size())])


def values(rank: int, shape: Sequence[int], dtype: str, tag: str = "") -> np.ndarray:
    """The array of `rank`: values whose sums and products are exact in every floating type."""
    rng = generator(rank, dtype + tag)
    if dtype == "bool":
        return rng.integers(0, 2, size=shape).astype(bool)
    low = 0 if dtype.startswith("u") else -3
    whole = rng.integers(low, 4, size=shape)
    if dtype in COMPLEX:
        whole = whole + 1j * rng.integers(low, 4, size=shape)
    scale = 1 if dtype in INTEGERS else 0.5
    return (whole * scale).astype(numpy_type(dtype))


def all_values(shape: Sequence[int], dtype: str, tag: str = "") -> np.ndarray:
    """The arrays of all ranks, [P, *shape]."""
    return np.stack([values(rank, shape, dtype, tag) for rank in range(sp.size())])


def numpy_type(dtype: str) -> Any:
    return tf.as_dtype(dtype).as_numpy_dtype


def eager(function: Function) -> Function:
    return function


def graph(function: Function) -> Function:
    return tf.function(function)


def graph_loop(function: Function) -> Function:
    return tf.function(_in_loop(function))


def compiled(function: Function) -> Function:
    return tf.function(function, jit_compile=True)


def compiled_loop(function: Function) -> Function:
    return tf.function(_in_loop(function), jit_compile=True)


def compiled_branch(function: Function) -> Function:
    inner = tf.function(_in_branch(function), jit_compile=True)
    return lambda *tensors: inner(tf.constant(True), *tensors)


def nested(function: Function) -> Function:
    """A function in a compiled function in a plain one."""
    inner = tf.function(function)
    middle = tf.function(inner, jit_compile=True)
    return tf.function(middle)


def on_two(context: Any) -> Any:
    """The context on two ranks, and on more where all is asked for."""
    return pytest.param(context, marks=_TWO, id=context.__name__)


_REASON = "one rank transfers nothing, and a third changes nothing in how a program is compiled"
_TWO = pytest.mark.ranks(least=2, most=2, reason=_REASON)
_SEVERAL = pytest.mark.ranks(least=2, reason=_REASON)
_THREE = pytest.mark.ranks(least=2, most=3, reason=_REASON)

_OTHERS = (graph_loop, compiled_loop, compiled_branch, nested)

CONTEXTS = (
    eager,
    pytest.param(graph, marks=_THREE, id="graph"),
    pytest.param(compiled, marks=_SEVERAL, id="compiled"),
    *map(on_two, _OTHERS),
)
"""For rows, roots and groups, which the number of ranks decides."""

THREE_CONTEXTS = (eager, *map(on_two, (graph, compiled)))
"""For element types and shapes, which it does not decide."""

EAGER_FIRST = (eager, on_two(compiled))
"""For what is made of the collectives' results."""


def _blank(function: Function, tensors: Sequence[Any]) -> Tensors:
    """Zeros like what `function` returns, which only a trace of it can tell."""
    traced = tf.function(function).get_concrete_function(*tensors)
    return [tf.zeros(y.shape, y.dtype) for y in traced.structured_outputs]


def _in_loop(function: Function) -> Function:
    """Once before a while loop, and in its only pass."""

    def looped(*tensors: Any) -> Tensors:
        first = function(*tensors)
        return tf.while_loop(
            lambda i, _: i < 1,
            lambda i, _: (i + 1, function(*tensors)),
            (tf.constant(0), first),
            # Which a plain graph may leave open.
            shape_invariants=(tf.TensorShape([]), [y.shape for y in first]),
        )[1]

    return looped


def _in_branch(function: Function) -> Function:
    def branched(flag: Any, *tensors: Any) -> Tensors:
        blank = _blank(function, tensors)
        return tf.cond(flag, lambda: function(*tensors), lambda: blank)

    return branched


def group_without_shared_memory() -> sp.Communicator:
    """Return all ranks once more, as a group whose tensors all travel by MPI (collective)."""
    world = sp.current_world().communicator
    native, world.native = world.native, replace(world.native, obstacle="left out by a test")
    try:
        return world.split(0)
    finally:
        world.native = native


def same_on_all_ranks(arrays: Sequence[Any]) -> bool:
    """Return whether all ranks have the same bits (collective)."""
    mine = [np.asarray(array).tobytes() for array in arrays]
    everyone = sp.current_world().communicator.allgather_object(mine)
    return all(theirs == mine for theirs in everyone)


def odd_one_out() -> bool:
    """Return whether this is the last rank, which does something else."""
    return sp.rank() == sp.size() - 1


def to_the_next(x: Any, **on: Any) -> Any:
    """All of x to the next rank, the last one's to the first (collective)."""
    next_one = (sp.rank() + 1) % sp.size()
    given = [x.shape[0] if r == next_one else 0 for r in range(sp.size())]
    return sp.alltoall(x, given, **on)[0]
