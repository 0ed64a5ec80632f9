"""XLA's call frame as a foreign call reads it: addresses of tensors, call site and stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

import numpy as np

from sciml_par.parallel.native.xla_structures import (
    FUNCTION,
    Api,
    Attributes,
    CallFrame,
    List,
    StreamArguments,
)

_WORD = ctypes.sizeof(ctypes.c_void_p)

# Reading a frame through nested structures takes longer than transferring a small buffer. So the
# offsets of the few relevant words are computed once, and the words read as plain integers.
EXTENSION_AT = CallFrame.extension.offset // _WORD
API_AT = CallFrame.api.offset // _WORD
_CONTEXT_AT = CallFrame.context.offset // _WORD
_ARGUMENTS_AT = (CallFrame.arguments.offset + List.items.offset) // _WORD
_RESULTS_AT = (CallFrame.results.offset + List.items.offset) // _WORD
_ATTRIBUTES_AT = (CallFrame.attributes.offset + Attributes.items.offset) // _WORD
_DATA_AT = 3  # of a buffer: struct_size, extension, dtype (padded), data
_VALUE_AT = 1  # of a scalar: dtype (padded), value

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
        scalar = memory[memory[frame + _ATTRIBUTES_AT] >> SHIFT]
        number = memory[memory[(scalar >> SHIFT) + _VALUE_AT] >> SHIFT]
        acts.get(number, gone)(frame)

    return act


def one_tensor(handler: Callable[..., object], *, with_stream: bool) -> Act:
    """Return an act that calls `handler` with the addresses of the first operand and result."""

    def act(frame: Frame) -> None:
        send = memory[(memory[memory[frame + _ARGUMENTS_AT] >> SHIFT] >> SHIFT) + _DATA_AT]
        receive = memory[(memory[memory[frame + _RESULTS_AT] >> SHIFT] >> SHIFT) + _DATA_AT]
        if with_stream:
            handler(send, receive, stream(frame))
        else:
            handler(send, receive)

    return act


def operands(frame: Frame, count: int) -> np.ndarray:
    """Return the addresses of the first `count` operands."""
    return _addresses(memory[frame + _ARGUMENTS_AT], count)


def results(frame: Frame, count: int) -> np.ndarray:
    """Return the addresses of the first `count` results."""
    return _addresses(memory[frame + _RESULTS_AT], count)


def _addresses(items: int, count: int) -> np.ndarray:
    buffers = np.frombuffer(ctypes.string_at(items, count * _WORD), np.uint64)
    first, step = int(buffers[0]), int(buffers[-1] - buffers[0]) // max(count - 1, 1)
    # XLA has them in one array, whose words can be read at once, many times as fast.
    if step > _DATA_AT * _WORD and step % _WORD == 0 and (np.diff(buffers) == step).all():
        words = np.frombuffer(ctypes.string_at(first, count * step), np.uint64)
        return words[_DATA_AT :: step // _WORD]
    found = [memory[(int(buffer) >> SHIFT) + _DATA_AT] for buffer in buffers]
    return np.array(found, np.uint64)


def stream(frame: Frame) -> int:
    """Return XLA's stream of the call, a CUstream."""
    arguments = StreamArguments(
        struct_size=ctypes.sizeof(StreamArguments), context=memory[frame + _CONTEXT_AT]
    )
    api = Api.from_address(memory[frame + API_AT])
    if FUNCTION(api.stream_get)(ctypes.addressof(arguments)):
        raise RuntimeError("XLA has no stream for this call: the program does not run on a GPU.")
    return arguments.stream or 0  # the default stream is a null pointer
