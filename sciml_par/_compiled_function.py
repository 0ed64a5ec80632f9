"""Functions compiled by XLA whose memory is given back.

TensorFlow keeps the graph of a compiled function that was called once, with a stack trace for each
operation, and its machine code, as long as the process lives. The graph is kept by the call, so
that here the operation which such a call makes is run directly. The rest lies in two caches.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf

# The cache of XLA is emptied as a whole, and what is still in use is then compiled again.
MOST_DROPPED = 8
MANY = 1 << 15
_CACHE = "xla_device_compiler"
_TYPE_OF_CACHE = "N10tensorflow14DeviceCompilerIN3xla15LocalExecutableENS1_11LocalClientEEE"
_HASH_OF_TYPE = 0x6B406BD7CBE180FF  # tsl::Hash64 of the name

_dropped: list[None] = []  # an entry for each; a list changes in one step, also in finalizers


class CompiledFunction:
    """A function traced for arguments of some shapes and types; its first call compiles it.

    With `points`, the number of values of u, XLA compiles for many of them alone: it takes a
    second, and TensorFlow milliseconds for a few.
    """

    def __init__(
        self, function: Callable[..., Any], specs: Sequence[Any], *, points: int = MANY
    ) -> None:
        traced = tf.function(function, jit_compile=points >= MANY or None, autograph=False)
        self._traced = traced.get_concrete_function(*specs)
        self._resources_last = False
        if points < MANY:
            return
        self._captured = list(self._traced.captured_inputs)
        inputs = self._traced.inputs
        self._types = [each.dtype for each in inputs[: len(inputs) - len(self._captured)]]
        resources = [each.dtype == tf.resource for each in inputs]
        self._resources_last = resources == sorted(resources)
        self._attributes: tuple[Any, ...] = (
            *("Tconstants", [], "Targs", _numbers(inputs[: resources.count(False)])),
            *("Nresources", sum(resources), "Tresults", _numbers(self._traced.outputs)),
            *("function", self._traced.name),
        )
        weakref.finalize(self, _dropped.append, None).atexit = False

    def __call__(self, *arguments: Any) -> Any:
        """Return the results at arguments of the shapes and types given before."""
        if not self._resources_last:  # as with a large array captured behind a variable
            return self._traced(*arguments)
        from tensorflow.python.eager import context, execute

        given = zip(tf.nest.flatten(arguments), self._types, strict=True)
        inputs = [tf.convert_to_tensor(each, dtype) for each, dtype in given]
        found = execute.execute(
            b"XlaLaunch",
            len(self._traced.outputs),
            [*inputs, *self._captured],
            self._attributes,
            context.context(),
        )
        return tf.nest.pack_sequence_as(self._traced.structured_outputs, found)


def release_dropped() -> None:
    """Empty the cache of XLA, if it holds the machine code of many functions that are gone.

    Compiled functions of the user's are compiled again at their next call. The machine code of one
    that runs must stay, so nothing is released while another thread is in TensorFlow.
    """
    if len(_dropped) < MOST_DROPPED or _others_compute():
        return
    from tensorflow.python.eager import context

    _dropped.clear()
    context.context().clear_kernel_cache()  # its operations hold the graphs
    for device in tf.config.list_logical_devices():
        tf.raw_ops.DestroyResourceOp(resource=_cache_of(device.name), ignore_lookup_error=True)


def _others_compute() -> bool:
    mine = threading.get_ident()
    places = {k: frame.f_code.co_filename for k, frame in sys._current_frames().items()}
    return any("tensorflow" in place for thread, place in places.items() if thread != mine)


def _cache_of(device: str) -> Any:
    from tensorflow.core.framework import resource_handle_pb2, tensor_pb2

    handle = resource_handle_pb2.ResourceHandleProto(
        device=f"/job:localhost/replica:0/task:0{device}",
        container="localhost",
        name=_CACHE,
        hash_code=_HASH_OF_TYPE,
        maybe_type_name=_TYPE_OF_CACHE,
    )
    tensor = tensor_pb2.TensorProto(
        dtype=tf.resource.as_datatype_enum, resource_handle_val=[handle]
    )
    return tf.io.parse_tensor(tensor.SerializeToString(), tf.resource)


def _numbers(tensors: Sequence[Any]) -> list[int]:
    return [each.dtype.as_datatype_enum for each in tensors]
