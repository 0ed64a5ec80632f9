"""The call sites of foreign calls, and their handlers on a GPU.

All custom calls have one target, and name their call site by a number. XLA never forgets a target.
A number, and the buffers of its call site, are forgotten with the graphs that hold the call site.
"""

from __future__ import annotations

import enum
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_lifetime import with_the_graph
from sciml_par.parallel.execution.xla_call_frame import Act, Frame, on_frame
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.transports.cupy_binding import Gpu

OnHost = Callable[[Sequence[int], Sequence[int]], object]
"""Takes the addresses of arguments and of results, in the host's memory."""

GpuHandler = Callable[[int, int, int], None]
"""Takes (send, receive, stream), addresses in the GPU's memory."""


class Role(enum.Enum):
    """Who asks for an act of a call site, and when."""

    HOST = "XLA, in a program for the host"
    GPU = "XLA, in a program for a GPU"
    RESUME = "machine code, which has begun the collective"
    FAIL = "machine code, after an error"


class CallSites:
    """The acts of all call sites of this process."""

    def __init__(self) -> None:
        # Numbers differ from those of other processes as well: a program from a cache of compiled
        # programs must not find a call site of this process.
        self._numbers = itertools.count(int.from_bytes(os.urandom(7), "little"))
        self._acts: dict[Role, dict[int, Act]] = {role: {} for role in Role}

    def act(self, role: Role) -> Act:
        """Return an act that passes the frame to the act of the frame's call site."""
        return on_frame(self._acts[role], _refuse)

    def add(self, acts: Mapping[Role, Act]) -> int:
        """Return the number of a new call site, which goes with the graph under construction."""
        number = next(self._numbers)
        for role, act in acts.items():
            self._acts[role][number] = act
        with_the_graph(None, self._discard, number)
        return number

    def _discard(self, number: int) -> None:
        for acts in self._acts.values():
            acts.pop(number, None)


def _refuse(_: Frame) -> None:
    raise RuntimeError(
        "The function that this collective belongs to was deleted, or compiled by another process: "
        "keep the tf.function for as long as it is called, and do not keep compiled programs from "
        "one run to the next."
    )


def gpu_handler(call_site: CallSite, *, on_host: bool = False) -> GpuHandler:
    """Return the handler of `call_site` in programs compiled for a GPU."""
    group, request = call_site.communicator, call_site.request
    nccl = group.nccl_transport
    if nccl is not None and not on_host and nccl.carries(request):
        return call_site.prepared(nccl).execute
    execute = call_site.prepared(group.mpi_transport).execute
    sent, received = request.count * request.element.size, call_site.nbytes
    run = on_copies(group.gpu, lambda send, to: execute(*send, *to), [sent], [received])
    return lambda send, receive, stream: run([send], [receive], stream)


def on_copies(
    gpu: Gpu | None, act: OnHost, sent: Sequence[int], received: Sequence[int]
) -> Callable[[Sequence[int], Sequence[int], int], None]:
    """Return `act` for addresses in the GPU's memory and a stream; the program waits.

    sent, received : the bytes of each argument and result.
    """
    if gpu is None:
        return _refuse_without_cupy

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


def _refuse_without_cupy(*_: object) -> None:
    raise InputError(
        "A collective, or a solver on the host, in a function that XLA compiles for a GPU needs "
        "CuPy: pip install 'sciml-par[gpu]', or leave jit_compile out, or hide the GPU "
        "(CUDA_VISIBLE_DEVICES=)."
    )
