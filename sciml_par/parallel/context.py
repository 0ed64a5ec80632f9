"""One collective, three contexts: eager tensors, graphs, and functions that XLA compiles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.parallel.call import Call
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.xla_bridge import bridge, in_compiled_function

_EAGER_CALLS_KEPT = 4096
_LAST = "sciml_par_last_collective"


class Chain:
    """Where a collective and its gradients stand in the order of a compiled program.

    Made where the forward pass is built, and passed on to its gradient, which may be built in a
    graph (the backward loop of a while loop) that can only reach the chain through the forward's.
    """

    def __init__(self, communicator: Communicator) -> None:
        compiled = not tf.executing_eagerly() and in_compiled_function()
        self._communicator = communicator
        self.order = bridge().order() if compiled and communicator.size > 1 else None

    def resumed(self) -> Chain:
        """The chain for a gradient: this one, or a new one if the forward pass was not compiled."""
        return Chain(self._communicator) if self.order is None else self


def perform(
    communicator: Communicator, key: Hashable, make: Callable[[], Call], x: Any, chain: Chain
) -> Any:
    """Carry out a collective on `x` in the context at hand (collective).

    Parameters
    ----------
    key : what distinguishes it from other calls of an eager program, which share their call sites.
    make : makes the call.
    x : tensor of the call's static shape.
    """
    if communicator.size == 1:
        return tf.identity(x)  # what every collective of one rank amounts to
    if tf.executing_eagerly():
        call = shared_call(communicator, key, make)
        return tf.constant(run_on_host(call, x.numpy()), x.dtype)
    call = make()
    with tf.control_dependencies(_last_collective()):
        in_graph = chain.order is None
        y = _in_graph(call, x) if in_graph else bridge().emit(call, x, chain.order)
    tf.compat.v1.get_default_graph().get_collection_ref(_LAST)[:] = [y.op]
    return y


def shared_call(communicator: Communicator, key: Hashable, make: Callable[[], Call]) -> Call:
    """The call site that eager calls alike in `key` share, made at the first of them."""
    calls = communicator.eager_calls
    call = calls.get(key)
    if call is None:
        if len(calls) >= _EAGER_CALLS_KEPT:
            calls.clear()
        call = calls[key] = make()
    return call


def run_on_host(call: Call, x: np.ndarray) -> np.ndarray:
    """Carry out `call` on an array (collective)."""
    send = np.ascontiguousarray(x)
    receive = np.empty(call.receive_shape, x.dtype)
    call.execute(_as_buffer(send), _as_buffer(receive))
    return receive


def _last_collective() -> list[Any]:
    """The collective before this one in the graph under construction: [operation] or [].

    A `tf.function` keeps its side effects in order, but the functions that TensorFlow derives from
    it for its gradient do not: there this dependency alone does.
    """
    graph = tf.compat.v1.get_default_graph()
    # A new graph inherits the collections of the one around it.
    return [operation for operation in graph.get_collection(_LAST) if operation.graph is graph]


def _in_graph(call: Call, x: Any) -> Any:
    y = tf.numpy_function(lambda a: run_on_host(call, a), [x], x.dtype)
    y.set_shape(call.receive_shape)
    return y


def _as_buffer(array: np.ndarray) -> Any:
    # MPI knows no bfloat16, nor do Python's buffers; the call site knows the type.
    return array.view(np.uint8) if array.ndim else array.reshape(1).view(np.uint8)
