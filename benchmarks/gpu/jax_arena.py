"""Collectives in programs that JAX compiles: the handler that sciml_par gives to TensorFlow.

JAX takes foreign functions by the same C interface of XLA, so this needs no TensorFlow. A
collective passes a scalar on, as in `sciml_par.parallel.execution.xla_custom_call`, which keeps
them in order.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu.arena import ADDRESSES, COMPILED, AddressArena, Once, Program
from gpu.cases import stepped
from gpu.device import Device
from sciml_par.parallel.execution.xla_ffi import TESTED_VERSIONS, Version, c_function, one_tensor
from sciml_par.parallel.requests.request import Request

_NEWEST_MINOR = 9
_TARGET = "sciml_par_check"


class JaxArena(AddressArena):
    """Collectives in `jax.jit`, on XLA's own stream.

    Parameters
    ----------
    platform : "CUDA" or "cpu".

    Attributes
    ----------
    version : of the foreign-function interface that the handlers report.
    """

    name = "JAX"
    ways = (ADDRESSES, COMPILED)
    computing = (COMPILED,)
    asynchronous = (ADDRESSES, COMPILED)

    def __init__(
        self, transport: Any, device: Device, stream: int | None, *, platform: str
    ) -> None:
        super().__init__(transport, device, stream)
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.devices()  # refusals of handlers come at once from here on
        self._platform = platform
        self._numbers = itertools.count()
        self._kept: list[Any] = []
        self.version: Version | None = None

    def once(self, way: str, requests: Sequence[Request]) -> Once:
        if way == ADDRESSES:
            return super().once(way, requests)
        import jax

        calls = [self._call(request) for request in requests]

        @jax.jit
        def compiled(xs: list[Any]) -> list[Any]:
            token, ys = jax.numpy.float32(0), []
            for call, x in zip(calls, xs, strict=True):
                y, token = call(x, token)
                ys.append(y)
            return ys

        return lambda xs: [np.asarray(y) for y in compiled([jax.numpy.asarray(x) for x in xs])]

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
        import jax

        calls = [self._call(request) for request in requests]

        def body(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            x, token = state
            for call in calls:
                x, token = call(stepped(x, self.rank) if computes else x, token)
            return x, token

        def function(x: Any) -> Any:
            state = (x, jax.numpy.float32(0))
            if not unrolled:
                return jax.lax.fori_loop(0, steps, body, state)[0]
            for i in range(steps):
                state = body(i, state)
            return state[0]

        return _JaxProgram(jax.jit(function))

    def _call(self, request: Request) -> Callable[[Any, Any], tuple[Any, Any]]:
        """The custom call of a request, registered under a name of its own."""
        import jax

        name = f"{_TARGET}_{next(self._numbers)}"
        self._register(name, request.prepared_by(self.transport))
        kinds = (
            jax.ShapeDtypeStruct(request.receive_shape, request.element.numpy),
            jax.ShapeDtypeStruct((), np.float32),
        )
        call: Any = jax.ffi.ffi_call(name, kinds, has_side_effect=True)
        return call

    def _register(self, name: str, handler: Callable[..., object]) -> None:
        """Register with the oldest tested version of the interface that this XLA takes."""
        import jax

        major, minor = TESTED_VERSIONS[0]
        versions = [(major, m) for m in range(minor, _NEWEST_MINOR + 1)]
        for version in [self.version] if self.version else versions:
            entry = c_function(one_tensor(handler, with_stream=self._platform == "CUDA"), version)
            self._kept.append(entry)
            pointer = ctypes.cast(entry, ctypes.c_void_p).value
            try:
                jax.ffi.register_ffi_target(
                    name, jax.ffi.pycapsule(pointer), platform=self._platform, api_version=1
                )
            except Exception as error:
                refused = error
            else:
                self.version = version
                return
        raise refused


class _JaxProgram(Program):
    def __init__(self, compiled: Callable[[Any], Any]) -> None:
        self._compiled = compiled
        self._x: Any = None
        self._y: Any = None

    def load(self, x: np.ndarray) -> None:
        import jax

        self._y = None
        self._x = jax.device_put(x).block_until_ready()

    def start(self) -> None:
        self._y = self._compiled(self._x)

    def wait(self) -> None:
        self._y.block_until_ready()

    def result(self) -> np.ndarray:
        return np.asarray(self._y)
