"""Where an eager tensor's elements lie.

Tensors are looked at through DLPack's capsules: the address serves MPI and NCCL alike, whatever
the element type, without a copy.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sciml_par._tensorflow import tf

HOST_MEMORY = 1
"""DLPack's number for the memory of the host."""

_NAME = b"dltensor"


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
    """A tensor's memory: valid while the view lives.

    Attributes
    ----------
    address : of the first element.
    capsule : what keeps the memory.
    """

    address: int
    capsule: object


def kind_of_memory(x: Any) -> int:
    """DLPack's number for the memory that an eager tensor lies in.

    Its device does not tell: TensorFlow keeps some tensors of a GPU (int32) on the host.
    """
    kind: int = x.__dlpack_device__()[0]
    return kind


def view(x: Any) -> View:
    """Return the memory of an eager tensor. Waits until TensorFlow has computed it."""
    to_capsule, pointer = _capsules()
    capsule = to_capsule(x)
    tensor = _DLTensor.from_address(pointer(capsule, _NAME))
    return View((tensor.data or 0) + tensor.byte_offset, capsule)


def empty(shape: Any, dtype: Any, device: str) -> Any:
    """Return a tensor of memory of its own, not yet written.

    A collective may write there, and nowhere else: other tensors share their memory.
    """
    if not has_gpus():  # choosing the device costs as much as all the rest
        return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=False)
    with tf.device(device):
        return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=False)


def tensor_on(array: np.ndarray) -> Any:
    """Return a tensor in host memory with the elements of an array that is not written any more.

    It lies on the array's own memory where that is aligned as TensorFlow wants it, and keeps it.
    """
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
    """Return whether TensorFlow computes on GPUs in this process, which is settled at its start."""
    return bool(tf.config.list_logical_devices("GPU"))


@lru_cache(maxsize=1)
def _capsules() -> tuple[Any, Any]:
    """Return what makes a tensor's capsule, and what takes the address out of it."""
    function = ctypes.pythonapi.PyCapsule_GetPointer
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return tf.experimental.dlpack.to_dlpack, function
