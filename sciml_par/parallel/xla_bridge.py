"""Collectives inside XLA-compiled functions: custom calls that execute a `Site`'s calls.

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
from sciml_par.parallel.call import Site
from sciml_par.parallel.gpu_handler import gpu_handler
from sciml_par.parallel.memory import has_gpus
from sciml_par.parallel.request import Request
from sciml_par.parallel.xla_ffi import CUDA, HOST, UnavailableError, foreign_calls

_TARGET = "sciml_par_collective"


class Bridge:
    """What puts custom calls into programs. Each call site is a target of its own to XLA, which
    saves the reading of attributes at every execution; it stays for the life of the process.

    Parameters
    ----------
    with_gpus : whether programs may run on GPUs; each then says what to do there as well.
    """

    def __init__(self, *, with_gpus: bool) -> None:
        self._foreign = foreign_calls()
        self._numbers = itertools.count()
        self._platforms = ["CPU", "CUDA"] if with_gpus else ["CPU"]
        # XLA wants a program's variables on the program's device.
        self._orders = {kind: _order_variable(kind) for kind in (["CPU", "GPU"][: 1 + with_gpus])}

    def order(self) -> Any:
        """The chain's variable as the graph under construction sees it; pass it to `emit`."""
        graph = tf.compat.v1.get_default_graph()
        kind = _device_kind() if len(self._orders) > 1 else "CPU"
        return graph.capture(self._orders[kind].handle)

    def emit(self, site: Site, x: Any, order: Any, *, on_host: bool = False) -> Any:
        """Put a collective into the graph under construction (local).

        Parameters
        ----------
        x : tensor of the request's shape.
        order : what `order()` gave, here or in the forward pass that this is the gradient of.
        on_host : carry it between host memory wherever the program runs.

        Returns
        -------
        tensor of the request's `receive_shape`.
        """
        from tensorflow.compiler.tf2xla.python import xla

        target = f"{_TARGET}_{next(self._numbers)}"
        self._foreign.register(target, HOST, site.by(site.communicator.by_mpi).execute)
        if "CUDA" in self._platforms:
            self._foreign.register(target, CUDA, gpu_handler(site, on_host=on_host))
        token = tf.raw_ops.ReadVariableOp(resource=order, dtype=tf.float32)
        y, token = xla.call_module(
            [x, token],
            version=9,
            module=_module(site.request, target, several_platforms=len(self._platforms) > 1),
            Tout=[x.dtype, tf.float32],
            Sout=[site.request.receive_shape, ()],
            platforms=self._platforms,
        )
        passed_on = tf.raw_ops.AssignVariableOp(resource=order, value=token)
        with tf.control_dependencies([passed_on]):
            return tf.identity(y)


def _order_variable(kind: str) -> Any:
    with tf.init_scope(), tf.device(f"/{kind}:0"):
        # On a GPU, TensorFlow would keep an integer in host memory.
        return tf.Variable(0.0, trainable=False, dtype=tf.float32, name="sciml_par_order")


def _device_kind() -> str:
    """ "CPU" if the program under construction was asked to run there, else "GPU"."""
    from tensorflow.python.eager import context

    # The graph's own device is not enough: a function does not inherit that of its caller.
    asked = context.context().device_name or ""
    return "CPU" if tf.DeviceSpec.from_string(asked).device_type == "CPU" else "GPU"


@lru_cache(maxsize=1)
def bridge() -> Bridge:
    """The bridge of this process, or an `InputError` that says why there is none."""
    try:
        return Bridge(with_gpus=has_gpus())
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


def _module(request: Request, target: str, *, several_platforms: bool) -> str:
    sent = _tensor_type(request.shape, request.element.stablehlo)
    received = _tensor_type(request.receive_shape, request.element.stablehlo)
    # A module for several platforms is told which of them it is compiled for, and asks nobody.
    platform = "%platform: tensor<i32>, " if several_platforms else ""
    return f"""
    module @{target} {{
      func.func public @main(
        {platform}%x: {sent}, %order: tensor<f32>
      ) -> ({received}, tensor<f32>) {{
        %0:2 = stablehlo.custom_call @{target}(%x, %order) {{
          api_version = 4 : i32, has_side_effect = true,
          operand_layouts = [{_row_major(request.shape)}, {_row_major(())}],
          result_layouts = [{_row_major(request.receive_shape)}, {_row_major(())}]
        }} : ({sent}, tensor<f32>) -> ({received}, tensor<f32>)
        return %0#0, %0#1 : {received}, tensor<f32>
      }}
    }}"""


def _tensor_type(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def _row_major(shape: tuple[int, ...]) -> str:
    """Unless it is told, XLA may hand over a buffer in the layout that suits its neighbours."""
    fastest_first = list(range(len(shape)))[::-1]
    return f"dense<{fastest_first}> : tensor<{len(shape)}xindex>"
