"""Collectives on TensorFlow's tensors, by what sciml_par's own functions are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu.arena import ADDRESSES, COMPILED, EAGER, GRAPH, AddressArena, Once, Program
from gpu.device import Device
from sciml_par.parallel.requests.request import Request


class TensorFlowArena(AddressArena):
    """Eager tensors, `tf.function`, and `tf.function(jit_compile=True)`.

    Parameters
    ----------
    communicator : the ranks.
    """

    name = "TensorFlow"
    ways = (ADDRESSES, EAGER, GRAPH, COMPILED)
    computing = (EAGER, GRAPH, COMPILED)
    asynchronous = (ADDRESSES, COMPILED)

    def __init__(
        self, communicator: Any, transport: Any, device: Device, stream: int | None
    ) -> None:
        super().__init__(transport, device, stream)
        self._communicator = communicator
        self._on = "/CPU:0" if stream is None else "/GPU:0"
        self._sites: dict[Request, Any] = {}

    def carries(self, way: str, request: Request) -> bool:
        # What NCCL does not carry goes by MPI, except on plain addresses.
        return way != ADDRESSES or super().carries(way, request)

    def once(self, way: str, requests: Sequence[Request]) -> Once:
        if way == ADDRESSES:
            return super().once(way, requests)

        def function(xs: list[Any]) -> list[Any]:
            return [self._carry(way, r, x) for r, x in zip(requests, xs, strict=True)]

        run = _as(way, function)
        return lambda xs: [y.numpy() for y in run([self.tensor(x) for x in xs])]

    def loop(
        self,
        way: str,
        requests: Sequence[Request],
        steps: int,
        *,
        computes: bool = False,
        unrolled: bool = False,
    ) -> Program:
        if way == ADDRESSES:
            return super().loop(way, requests, steps, computes=computes)
        import tensorflow as tf

        def body(x: Any) -> Any:
            for request in requests:
                x = self._carry(way, request, self._stepped(x) if computes else x)
            return x

        def function(x: Any) -> Any:
            if way == EAGER or unrolled:
                for _ in range(steps):
                    x = body(x)
                return x
            return tf.while_loop(
                lambda i, _: i < steps, lambda i, x: (i + 1, body(x)), (tf.constant(0), x)
            )[1]

        return _TensorFlowProgram(self, _as(way, function))

    def tensor(self, x: np.ndarray) -> Any:
        """An array as a tensor in the memory that is being checked."""
        import tensorflow as tf

        with tf.device(self._on):
            return tf.identity(tf.constant(x))

    def all(self, flag: bool) -> bool:
        return all(self._communicator.allgather_object(flag))

    def meet(self) -> None:
        self._communicator.barrier()

    def finish(self) -> None:
        import tensorflow as tf

        tf.test.experimental.sync_devices()
        super().finish()

    def _carry(self, way: str, request: Request, x: Any) -> Any:
        """The collective as sciml_par carries it out in this context."""
        import tensorflow as tf

        from sciml_par.parallel.execution.dispatch import Placement, perform, run_eagerly
        from sciml_par.parallel.execution.xla_custom_call import bridge

        if self.size > 1:
            return perform(self._communicator, request, x, Placement(self._communicator))
        # `perform` knows that one rank has nothing to exchange. Here it shall do so all the same.
        call_site = self._site(request)
        if way == EAGER:
            return run_eagerly(call_site, x)
        if way == COMPILED:
            return bridge().emit(call_site, x, bridge().order())
        y = tf.py_function(lambda tensor: run_eagerly(call_site, tensor), [x], x.dtype)
        y.set_shape(request.receive_shape)
        return y

    def _site(self, request: Request) -> Any:
        from sciml_par.parallel.groups.call_site import CallSite

        if request not in self._sites:
            self._sites[request] = CallSite(self._communicator, request)
        return self._sites[request]

    def _stepped(self, x: Any) -> Any:
        """`cases.stepped` on a tensor."""
        import tensorflow as tf

        return x * tf.constant(3, x.dtype) + tf.constant(self.rank + 1, x.dtype)


def _as(way: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    if way == EAGER:
        return function
    return tf.function(function, jit_compile=True if way == COMPILED else None, autograph=False)


class _TensorFlowProgram(Program):
    def __init__(self, arena: TensorFlowArena, function: Callable[[Any], Any]) -> None:
        self._arena = arena
        self._function = function
        self._x: Any = None
        self._y: Any = None

    def load(self, x: np.ndarray) -> None:
        self._y = None
        self._x = self._arena.tensor(x)
        self.wait()

    def start(self) -> None:
        self._y = self._function(self._x)

    def wait(self) -> None:
        import tensorflow as tf

        tf.test.experimental.sync_devices()

    def result(self) -> np.ndarray:
        out: np.ndarray = self._y.numpy()
        return out
