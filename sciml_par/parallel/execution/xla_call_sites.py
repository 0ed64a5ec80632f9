"""The call sites of foreign calls, what they read from XLA's frames, and their handlers on a GPU.

All custom calls have one target, and name their call site by a number. XLA never forgets a target.
A number, and the buffers of its call site, are forgotten with the graphs that hold the call site.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.execution.graph_lifetime import with_the_graph
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.native.xla_structures import (
    API_AT,
    ARGUMENTS_AT,
    ATTRIBUTES_AT,
    CONTEXT_AT,
    DATA_AT,
    FUNCTION,
    RESULTS_AT,
    VALUE_AT,
    Api,
    StreamArguments,
)
from sciml_par.parallel.transports.cupy_binding import Gpu

_WORD = ctypes.sizeof(ctypes.c_void_p)

SHIFT = 3
memory = (ctypes.c_uint64 * (1 << 45)).from_address(0)
"""The words of this process's memory: `memory[a >> SHIFT]` is the word at address a."""

Frame = int
"""The address of a call frame, XLA_FFI_CallFrame, in words."""

Act = Callable[[Frame], object]
"""Executes a custom call."""


def one_tensor(handler: Callable[..., object], *, with_stream: bool) -> Act:
    """Return an act that calls `handler` with the addresses of the first operand and result."""

    def act(frame: Frame) -> None:
        send = memory[(memory[memory[frame + ARGUMENTS_AT] >> SHIFT] >> SHIFT) + DATA_AT]
        receive = memory[(memory[memory[frame + RESULTS_AT] >> SHIFT] >> SHIFT) + DATA_AT]
        if with_stream:
            handler(send, receive, stream(frame))
        else:
            handler(send, receive)

    return act


def operands(frame: Frame, count: int) -> np.ndarray:
    """Return the addresses of the first `count` operands."""
    return _addresses(memory[frame + ARGUMENTS_AT], count)


def results(frame: Frame, count: int) -> np.ndarray:
    """Return the addresses of the first `count` results."""
    return _addresses(memory[frame + RESULTS_AT], count)


def _addresses(items: int, count: int) -> np.ndarray:
    buffers = np.frombuffer(ctypes.string_at(items, count * _WORD), np.uint64)
    first, step = int(buffers[0]), int(buffers[-1] - buffers[0]) // max(count - 1, 1)
    # XLA has them in one array, whose words can be read at once, many times as fast.
    if step > DATA_AT * _WORD and step % _WORD == 0 and (np.diff(buffers) == step).all():
        words = np.frombuffer(ctypes.string_at(first, count * step), np.uint64)
        return words[DATA_AT :: step // _WORD]
    found = [memory[(int(buffer) >> SHIFT) + DATA_AT] for buffer in buffers]
    return np.array(found, np.uint64)


def stream(frame: Frame) -> int:
    """Return XLA's stream of the call, a CUstream."""
    arguments = StreamArguments(
        struct_size=ctypes.sizeof(StreamArguments), context=memory[frame + CONTEXT_AT]
    )
    api = Api.from_address(memory[frame + API_AT])
    if FUNCTION(api.stream_get)(ctypes.addressof(arguments)):
        raise RuntimeError("XLA has no stream for this call: the program does not run on a GPU.")
    return arguments.stream or 0  # the default stream is a null pointer


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
        acts = self._acts[role]

        def act(frame: Frame) -> None:
            scalar = memory[memory[frame + ATTRIBUTES_AT] >> SHIFT]
            number = memory[memory[(scalar >> SHIFT) + VALUE_AT] >> SHIFT]
            acts.get(number, _refuse)(frame)

        return act

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
