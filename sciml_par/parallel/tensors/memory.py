"""The memory of eager tensors, by DLPack's capsules: without a copy, for every element type."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sciml_par._tensorflow import tf

HOST_MEMORY = 1
"""DLPack's number for the memory of the host."""

_NAME = b"dltensor"

_WITHOUT_EMPTY = {
    "uint32": ("float32", []),
    "complex64": ("float64", []),
    "complex128": ("float64", [2]),
}
"""Types that TensorFlow's Empty does not allocate on a GPU: by which other type it does."""


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class View(NamedTuple):
    """A tensor's memory: the address of the first element, and the capsule that keeps it valid."""

    address: int
    capsule: object


def kind_of_memory(x: Any) -> int:
    """Return DLPack's number for the memory of an eager tensor."""
    kind: int = x.__dlpack_device__()[0]
    return kind


def view(x: Any) -> View:
    """Return the memory of an eager tensor, after TensorFlow has computed it."""
    to_capsule, pointer = _capsules()
    capsule = to_capsule(x)
    tensor = _DLTensor.from_address(pointer(capsule, _NAME))
    return View((tensor.data or 0) + tensor.byte_offset, capsule)


def empty(shape: Any, dtype: Any, device: str) -> Any:
    """Return a tensor of uninitialized memory that no other tensor shares."""
    if not has_gpus():  # choosing the device takes as long as the rest
        return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=False)
    with tf.device(device):
        if dtype.name not in _WITHOUT_EMPTY:
            return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=False)
        same_size, parts = _WITHOUT_EMPTY[dtype.name]
        memory = tf.raw_ops.Empty(shape=[*shape, *parts], dtype=same_size, init=False)
        return tf.bitcast(memory, dtype)


def tensor_on(array: np.ndarray) -> Any:
    """Return a tensor with the elements of an array that nobody writes any more."""
    make, host = _maker_of_tensors()
    return make(array, host, None)


def eager_tensor() -> type:
    """Return the class of TensorFlow's eager tensors."""
    kind: type = _maker_of_tensors()[0]
    return kind


@lru_cache(maxsize=1)
def _maker_of_tensors() -> tuple[Any, str]:
    from tensorflow.python.framework import ops

    return ops.EagerTensor, tf.config.list_logical_devices("CPU")[0].name


@lru_cache(maxsize=1)
def has_gpus() -> bool:
    """Return whether TensorFlow computes on GPUs in this process."""
    return bool(tf.config.list_logical_devices("GPU"))


@lru_cache(maxsize=1)
def _capsules() -> tuple[Any, Any]:
    """Return functions that create a tensor's capsule, and read its address."""
    function = ctypes.pythonapi.PyCapsule_GetPointer
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return tf.experimental.dlpack.to_dlpack, function
