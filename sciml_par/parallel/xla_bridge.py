"""Collectives inside XLA-compiled functions: a custom call that executes a `Call`.

Order. XLA keeps program order only among operations that depend on each other. Every collective
here therefore reads a scalar variable, passes it through its custom call and writes it back.
TensorFlow threads variables through loops, branches and nested functions in program order, so all
collectives of a program form one chain, and all ranks run them in the same order.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.call import Call
from sciml_par.parallel.xla_ffi import UnavailableError, foreign_calls

_TARGET = "sciml_par_collective"
_BUFFERS_KEPT = 64


class Site:
    """One custom call in a compiled program."""

    def __init__(self, call: Call) -> None:
        from mpi4py import MPI

        self.call = call
        self._from_address = MPI.memory.fromaddress
        self._send_bytes = _bytes(call.send_shape, call.element.size)
        self._receive_bytes = _bytes(call.receive_shape, call.element.size)
        self._buffers: dict[tuple[int, int], tuple[Any, Any]] = {}

    def execute(self, send: int, receive: int) -> None:
        """Carry out the collective between two addresses (collective)."""
        buffers = self._buffers.get((send, receive)) or self._map(send, receive)
        self.call.execute(*buffers)

    def _map(self, send: int, receive: int) -> tuple[Any, Any]:
        if len(self._buffers) >= _BUFFERS_KEPT:
            self._buffers.clear()
        source = self._from_address(send, self._send_bytes)
        target = source if send == receive else self._from_address(receive, self._receive_bytes)
        return self._buffers.setdefault((send, receive), (source, target))


class Bridge:
    """What puts custom calls into programs. Each call site is a target of its own to XLA, which
    saves the reading of attributes at every execution; it stays for the life of the process."""

    def __init__(self) -> None:
        self._foreign = foreign_calls()
        self._numbers = itertools.count()
        with tf.init_scope():
            self._order = tf.Variable(0, trainable=False, name="sciml_par_order")

    def order(self) -> Any:
        """The chain's variable as the graph under construction sees it; pass it to `emit`."""
        graph = tf.compat.v1.get_default_graph()
        return graph.capture(self._order.handle)

    def emit(self, call: Call, x: Any, order: Any) -> Any:
        """Put `call` into the graph under construction (local).

        Parameters
        ----------
        x : tensor of static shape `call.send_shape`.
        order : what `order()` gave, here or in the forward pass that this is the gradient of.

        Returns
        -------
        tensor of shape `call.receive_shape`.
        """
        from tensorflow.compiler.tf2xla.python import xla

        target = f"{_TARGET}_{next(self._numbers)}"
        self._foreign.register(target, "Host", Site(call).execute)
        token = tf.raw_ops.ReadVariableOp(resource=order, dtype=tf.int32)
        y, token = xla.call_module(
            [x, token],
            version=9,
            module=_module(call, target),
            Tout=[x.dtype, tf.int32],
            Sout=[call.receive_shape, ()],
            platforms=["CPU"],
        )
        passed_on = tf.raw_ops.AssignVariableOp(resource=order, value=token)
        with tf.control_dependencies([passed_on]):
            return tf.identity(y)


@lru_cache(maxsize=1)
def bridge() -> Bridge:
    """The bridge of this process, or an `InputError` that says why there is none."""
    try:
        return Bridge()
    except UnavailableError as reason:
        raise InputError(
            f"A collective stands inside tf.function(jit_compile=True), which needs foreign calls "
            f"from XLA, but {reason}. Use TensorFlow 2.21, or leave jit_compile out."
        ) from None


def in_compiled_function() -> bool:
    """Whether the graph under construction will be compiled by XLA as a whole."""
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def _module(call: Call, target: str) -> str:
    sent = _tensor_type(call.send_shape, call.element.stablehlo)
    received = _tensor_type(call.receive_shape, call.element.stablehlo)
    return f"""
    module @{target} {{
      func.func public @main(%x: {sent}, %order: tensor<i32>) -> ({received}, tensor<i32>) {{
        %0:2 = stablehlo.custom_call @{target}(%x, %order) {{
          api_version = 4 : i32, has_side_effect = true
        }} : ({sent}, tensor<i32>) -> ({received}, tensor<i32>)
        return %0#0, %0#1 : {received}, tensor<i32>
      }}
    }}"""


def _tensor_type(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def _bytes(shape: tuple[int, ...], element_size: int) -> int:
    total = element_size
    for n in shape:
        total *= n
    return total
