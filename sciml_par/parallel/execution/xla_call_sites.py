"""The call sites of foreign calls, and their handlers on a GPU.

All custom calls have one target, and name their call site by a number. XLA never forgets a target.
A number, and the buffers of its call site, are forgotten with the graphs that hold the call site.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_lifetime import with_the_graph
from sciml_par.parallel.execution.xla_call_frame import Act, Frame
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.transports.cupy_binding import Gpu

OnHost = Callable[[Sequence[int], Sequence[int]], object]
"""Takes the addresses of arguments and of results, in the host's memory."""

GpuHandler = Callable[[int, int, int], None]
"""Takes (send, receive, stream), addresses in the GPU's memory."""


class CallSites:
    """The call sites of one target on one platform."""

    def __init__(self, dispatcher: Callable[[Mapping[int, Any], Act], Act]) -> None:
        self._handlers: dict[int, Callable[..., object]] = {}
        self.act = dispatcher(self._handlers, _refuse)

    def __len__(self) -> int:
        return len(self._handlers)

    def add(self, number: int, handler: Callable[..., object]) -> None:
        """Let `handler` serve the calls with this number."""
        self._handlers[number] = handler

    def discard(self, number: int) -> None:
        """Forget the call site."""
        self._handlers.pop(number, None)


def _refuse(_: Frame) -> None:
    raise RuntimeError(
        "The function that this collective belongs to was deleted, or compiled by another process: "
        "keep the tf.function for as long as it is called, and do not keep compiled programs from "
        "one run to the next."
    )


class CallSiteNumbers:
    """Numbers that differ from those of all other call sites, of other processes as well."""

    def __init__(self) -> None:
        # A program from a cache of compiled programs must not find a call site of this process.
        self._numbers = itertools.count(int.from_bytes(os.urandom(7), "little"))

    def take(self, *tables: CallSites) -> int:
        """Return a number, which `tables` forget with the graph under construction."""
        number = next(self._numbers)
        for table in tables:
            with_the_graph(None, table.discard, number)
        return number


def gpu_handler(call_site: CallSite, *, on_host: bool = False) -> GpuHandler:
    """Return the handler of `call_site` in programs compiled for a GPU."""
    nccl = call_site.communicator.nccl_transport
    if nccl is not None and not on_host and nccl.carries(call_site.request):
        return call_site.prepared(nccl).execute
    if call_site.communicator.gpu is None:
        return refuse_without_cupy
    return _through_the_host(call_site)


def _through_the_host(call_site: CallSite) -> GpuHandler:
    gpu, request = call_site.communicator.gpu, call_site.request
    assert gpu is not None
    call = call_site.prepared(call_site.communicator.mpi_transport)
    sent = request.count * request.element.size
    received = math.prod(request.receive_shape) * request.element.size
    run = on_copies(gpu, lambda send, receive: call.execute(*send, *receive), [sent], [received])
    return lambda send, receive, stream: run([send], [receive], stream)


def on_copies(
    gpu: Gpu, act: OnHost, sent: Sequence[int], received: Sequence[int]
) -> Callable[[Sequence[int], Sequence[int], int], None]:
    """Return `act` for addresses in the GPU's memory and a stream; the program waits.

    sent, received : the bytes of each argument and result.
    """

    def run(sources: Sequence[int], targets: Sequence[int], stream: int) -> None:
        # Allocated in each run: a program may run on several threads at once.
        arguments = [np.empty(nbytes, np.uint8) for nbytes in sent]
        results = [np.empty(nbytes, np.uint8) for nbytes in received]
        for host, source in zip(arguments, sources, strict=True):
            gpu.copy_to_host(host.ctypes.data, source, host.nbytes, stream)
        gpu.synchronize(stream)
        act([each.ctypes.data for each in arguments], [each.ctypes.data for each in results])
        for target, host in zip(targets, results, strict=True):
            gpu.copy_from_host(target, host.ctypes.data, host.nbytes, stream)
        gpu.synchronize(stream)

    return run


def refuse_without_cupy(*_: object) -> None:
    """Raise the error of a call in a program for a GPU whose memory cannot be copied."""
    raise InputError(
        "A collective, or a solver on the host, in a function that XLA compiles for a GPU needs "
        "CuPy: pip install 'sciml-par[gpu]', or leave jit_compile out, or hide the GPU "
        "(CUDA_VISIBLE_DEVICES=)."
    )
