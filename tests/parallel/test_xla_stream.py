"""The stream that XLA hands to foreign calls on GPUs, on call frames made by hand, word by word."""

from __future__ import annotations

import ctypes
import itertools
import operator
import re
import signal
from pathlib import Path

import pytest
import tensorflow as tf

from sciml_par.parallel.execution.xla_call_sites import one_tensor
from sciml_par.parallel.execution.xla_ffi import FAILED_PRECONDITION, c_function
from sciml_par.parallel.native.interrupts import take

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

POINTER = ctypes.sizeof(ctypes.c_void_p)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
AN_ERROR = 0xE1
INTERRUPTIONS = itertools.repeat(0xE2)
CONTEXT = 0xC0


def words(*values):
    return (ctypes.c_uint64 * len(values))(*values)


def address(thing):
    return ctypes.cast(thing, ctypes.c_void_p).value


class FakeXla:
    """A fake of XLA's interface: gives a stream, and takes errors."""

    def __init__(self, stream):
        self.errors = []
        self.contexts = []
        self._stream = stream
        self._kept = []
        functions = [FUNCTION(f) for f in (self._error_create, self._stream_get)]
        create, get = map(address, functions)
        self._kept += functions
        version = (24, 0, 2 << 32 | 0)  # its size, no extension, (major 0, minor 2)
        # internal_api, error_create, error_get_message, error_destroy, handler_register, stream_get
        self._api = words(1000, 0, *version, 0, create, 0, 0, 0, get)

    def _error_create(self, at):
        _, _, message, code = words(*(ctypes.c_uint64 * 4).from_address(at))
        self.errors.append((ctypes.string_at(message).decode(), code & 0xFFFFFFFF))
        return AN_ERROR

    def _stream_get(self, at):
        arguments = (ctypes.c_uint64 * 4).from_address(at)
        self.contexts.append((arguments[0], arguments[2]))
        arguments[3] = self._stream

    def frame(self, send, receive):
        """The address of a call frame with two operands and two results, as collectives have."""
        order = self._buffer(0xDEAD)
        operands = words(address(self._buffer(send)), address(order))
        results = words(address(self._buffer(receive)), address(order))
        types = words(0)
        execute = 3
        listed = [(40, 0, 2, address(types), address(items)) for items in (operands, results)]
        frame = words(
            200, 0, address(self._api), CONTEXT, execute, *listed[0], *listed[1], *[0] * 8
        )
        self._kept += [operands, results, types, frame]
        return address(frame)

    def _buffer(self, data):
        float32, rank = 11, 0
        buffer = words(48, 0, float32, data, rank, 0)
        self._kept.append(buffer)
        return buffer


@pytest.fixture
def seen():
    return []


def noting(seen):
    return lambda *arguments: seen.append(arguments)


@pytest.mark.parametrize("stream", (0x7F0000001000, 0, None))
def test_the_handler_gets_the_addresses_and_the_stream(seen, stream):
    """The default stream is 0; on the host nobody asks for one."""
    xla, asks = FakeXla(stream), stream is not None
    entry = c_function(one_tensor(noting(seen), with_stream=asks), (0, 2), INTERRUPTIONS)
    assert entry(xla.frame(0x1000, 0x2000)) is None
    assert seen == [(0x1000, 0x2000, *([stream] if asks else []))]
    assert xla.contexts == [(4 * POINTER, CONTEXT)] * asks and xla.errors == []


def header_of_xla():
    return (Path(tf.sysconfig.get_include()) / "xla" / "ffi" / "api" / "c_api.h").read_text()


def test_the_interface_is_laid_out_as_in_xlas_header():
    """The host's calls show that the rest is; only a GPU's ask for a stream."""
    header = header_of_xla()
    functions = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\(XLA_FFI_(\w+)\);", header)
    expected = ["Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register"]
    assert functions[:5] == [*expected, "Stream_Get"]
    body = re.search(r"struct XLA_FFI_Stream_Get_Args \{(.*?)\};", header, re.DOTALL)[1]
    fields = re.findall(r"(\w+);", body)
    assert fields == ["struct_size", "extension_start", "ctx", "stream"]


class WithoutText(Exception):
    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(
    "error, text",
    ((ValueError("\udc80"), "\\udc80"), (WithoutText(), "WithoutText, whose text cannot be made")),
)
def test_an_error_without_a_text_is_an_error(error, text):
    """Its text cannot be encoded, or not even made."""

    def handler(send, receive):
        raise error

    xla = FakeXla(stream=None)
    assert (
        c_function(one_tensor(handler, with_stream=False), (0, 2), INTERRUPTIONS)(xla.frame(1, 2))
        == AN_ERROR
    )
    assert xla.errors == [(text, FAILED_PRECONDITION)]


def test_a_signal_before_the_first_line_is_an_error(seen):
    """Its handler runs as the Python function starts, and what it raises is kept."""

    def exits(*_):
        raise SystemExit(7)

    xla = FakeXla(stream=None)
    entry = c_function(one_tensor(noting(seen), with_stream=False), (0, 2), INTERRUPTIONS)
    before = signal.signal(signal.SIGUSR1, exits)
    try:
        # In C, so that Python finds the signal in the callback, and not earlier.
        calls = [ctypes.pythonapi.PyErr_SetInterruptEx, entry]
        _, answer = list(map(operator.call, calls, [signal.SIGUSR1, xla.frame(1, 2)]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert answer == AN_ERROR and xla.errors == [("7", FAILED_PRECONDITION)]
    assert seen == []
    kept = take()
    assert isinstance(kept, SystemExit) and kept.code == 7
