"""The structures of XLA's C interface for foreign calls, through ctypes.

They follow xla/ffi/api/c_api.h, version 0.2, which TensorFlow's wheel ships among its headers; XLA
promises that old versions stay usable for twelve months at least.
"""

from __future__ import annotations

import ctypes

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
"""The type of XLA's functions: they take the address of a structure of arguments."""


class Version(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("version", Version),
        ("internal", ctypes.c_void_p),
        ("error_create", ctypes.c_void_p),
        ("error_get_message", ctypes.c_void_p),
        ("error_destroy", ctypes.c_void_p),
        ("handler_register", ctypes.c_void_p),
        ("stream_get", ctypes.c_void_p),
    )


class Span(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class Bundle(ctypes.Structure):
    _fields_ = (
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
    )


class RegisterArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("name", Span),
        ("platform", Span),
        ("bundle", Bundle),
        ("traits", ctypes.c_uint32),
    )


class ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    )


class StreamArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


class Extension(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


class Metadata(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version", Version),
    )


class List(ctypes.Structure):
    """XLA_FFI_Args, XLA_FFI_Rets."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("items", ctypes.c_void_p),
    )


class Attributes(ctypes.Structure):
    """XLA_FFI_Attrs."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("items", ctypes.c_void_p),
    )


class CallFrame(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("api", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", List),
        ("results", List),
        ("attributes", Attributes),
    )
