"""XLA's call frame as a foreign call reads it: addresses of tensors, call site and stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

import numpy as np

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

_WORD = ctypes.sizeof(ctypes.c_void_p)

SHIFT = 3
memory = (ctypes.c_uint64 * (1 << 45)).from_address(0)
"""The words of this process's memory: `memory[a >> SHIFT]` is the word at address a."""

Frame = int
"""The address of a call frame, XLA_FFI_CallFrame, in words."""

Act = Callable[[Frame], object]
"""Executes a custom call."""


def on_frame(acts: Mapping[int, Act], gone: Act) -> Act:
    """Return an act that passes the frame to the call site's act."""

    def act(frame: Frame) -> None:
        scalar = memory[memory[frame + ATTRIBUTES_AT] >> SHIFT]
        number = memory[memory[(scalar >> SHIFT) + VALUE_AT] >> SHIFT]
        acts.get(number, gone)(frame)

    return act


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
