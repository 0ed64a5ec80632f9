"""Python functions on host memory inside TensorFlow programs, compiled by XLA or not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.xla_custom_call import bridge, in_compiled_function
from sciml_par.parallel.requests.request import Shape
from sciml_par.parallel.tensors.packing import shape_of

Array = npt.NDArray[Any]
HostFunction = Callable[[Sequence[Array], Sequence[Array]], None]
"""Reads the arguments and writes all results. The arrays are TensorFlow's memory, and invalid
afterwards."""


def can_call_on_host() -> bool:
    """Return whether `call_on_host` works without copies in the program under construction.

    If XLA compiles the program for a GPU, `call_on_host` copies to the host and back.
    """
    if not in_compiled_function():
        return True
    try:
        return bridge().on_host_here()
    except InputError:
        return False


def call_on_host(
    function: HostFunction, tensors: Sequence[Any], shapes: Sequence[Shape]
) -> list[Any]:
    """Call `function` in a program, with host memory; without a gradient.

    Its results must depend only on its arguments: the program decides when to call it, and between
    which collectives. Programs that run at the same time call it at the same time.
    """
    dtype = tensors[0].dtype
    sent = [shape_of(x) for x in tensors]
    received = [tuple(map(int, shape)) for shape in shapes]
    numpy_type = np.dtype(dtype.as_numpy_dtype)
    if in_compiled_function():
        act = _act(function, sent, received, numpy_type)
        return bridge().emit_host_function(act, tensors, received)

    def call(*arrays: Array) -> list[Array]:
        results = [np.empty(shape, numpy_type) for shape in received]
        function(arrays, results)
        return results

    # In eager mode, TensorFlow returns a single result without a list.
    found = tf.nest.flatten(tf.numpy_function(call, list(tensors), [dtype] * len(received)))
    return [tf.ensure_shape(y, shape) for y, shape in zip(found, received, strict=True)]


def _act(
    function: HostFunction, sent: Sequence[Shape], received: Sequence[Shape], dtype: Any
) -> Callable[[Sequence[int], Sequence[int]], None]:
    """Return `function` as a function of the addresses of arguments and results."""

    def act(arguments: Sequence[int], results: Sequence[int]) -> None:
        given = [_array(at, shape, dtype) for at, shape in zip(arguments, sent, strict=True)]
        wanted = [_array(at, shape, dtype) for at, shape in zip(results, received, strict=True)]
        try:
            function(given, wanted)
        except Exception as error:
            # The program's error has no traceback.
            name = getattr(function, "__name__", type(function).__name__)
            raise RuntimeError(f"{name}: {type(error).__name__}: {error}") from error

    return act


def _array(address: int, shape: Shape, dtype: Any) -> Array:
    size = int(np.prod(shape)) * dtype.itemsize
    return np.ndarray(shape, dtype, (ctypes.c_byte * size).from_address(address))
