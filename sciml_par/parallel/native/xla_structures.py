"""The structures of XLA's C interface for foreign calls, through ctypes.

They follow xla/ffi/api/c_api.h, version 0.2, which TensorFlow's wheel ships among its headers; XLA
promises that old versions stay usable for twelve months at least.
"""

from __future__ import annotations

import ctypes
from typing import Any

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
"""The type of XLA's functions: they take the address of a structure of arguments."""


_ADDRESS, _WORD, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_HEAD = (("struct_size", _WORD), ("extension", _ADDRESS))


def _addresses(names: str) -> list[tuple[str, type]]:
    return [(name, _ADDRESS) for name in names.split()]


class Version(ctypes.Structure):
    _fields_ = (*_HEAD, ("major", _INT), ("minor", _INT))


class Api(ctypes.Structure):
    _fields_ = (
        *(*_HEAD, ("version", Version)),
        *_addresses("internal error_create error_get_message error_destroy"),
        *_addresses("handler_register stream_get"),
    )


class Span(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", _WORD))


class Bundle(ctypes.Structure):
    _fields_ = _addresses("instantiate prepare initialize execute")


class RegisterArguments(ctypes.Structure):
    _fields_ = (
        *(*_HEAD, ("name", Span), ("platform", Span)),
        *(("bundle", Bundle), ("traits", ctypes.c_uint32)),
    )


class ErrorArguments(ctypes.Structure):
    _fields_ = (*_HEAD, ("message", ctypes.c_char_p), ("code", _INT))


class StreamArguments(ctypes.Structure):
    _fields_ = (*_HEAD, *_addresses("context stream"))


class Extension(ctypes.Structure):
    _fields_ = (("struct_size", _WORD), ("type", _INT), *_addresses("next metadata"))


class Metadata(ctypes.Structure):
    _fields_ = (("struct_size", _WORD), ("version", Version))


class List(ctypes.Structure):
    """XLA_FFI_Args, XLA_FFI_Rets."""

    _fields_ = (*_HEAD, ("size", ctypes.c_int64), *_addresses("types items"))


class Attributes(ctypes.Structure):
    """XLA_FFI_Attrs."""

    _fields_ = (*_HEAD, ("size", ctypes.c_int64), *_addresses("types names items"))


class CallFrame(ctypes.Structure):
    _fields_ = (
        *(*_HEAD, *_addresses("api context"), ("stage", _INT)),
        *(("arguments", List), ("results", List), ("attributes", Attributes)),
    )


def _word(*places: Any) -> int:
    return sum(place.offset for place in places) // ctypes.sizeof(_ADDRESS)


# Reading a frame through nested structures takes longer than transferring a small buffer. So the
# places of the few relevant words are computed once, and the words read as plain integers.
EXTENSION_AT, API_AT = _word(CallFrame.extension), _word(CallFrame.api)
CONTEXT_AT = _word(CallFrame.context)
ARGUMENTS_AT = _word(CallFrame.arguments, List.items)
RESULTS_AT = _word(CallFrame.results, List.items)
ATTRIBUTES_AT = _word(CallFrame.attributes, Attributes.items)
DATA_AT = 3  # of a buffer: struct_size, extension, dtype (padded), data
VALUE_AT = 1  # of a scalar: dtype (padded), value
