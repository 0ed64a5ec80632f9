"""XLA's C interface for foreign calls, through ctypes: register a Python function, read its frame.

TensorFlow's wheel exports `XLA_FFI_GetApi`. The structures below follow
xla/ffi/api/c_api.h, version 0.2, which the wheel ships among its headers; XLA promises that old
versions stay usable for twelve months at least. On the host a call costs about two microseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module

TESTED_VERSIONS = ((0, 2),)
"""The (major, minor) versions of the interface that this module was tested with."""

FAILED_PRECONDITION = 9
"""The error code that TensorFlow raises as `tf.errors.FailedPreconditionError`."""

_METADATA_EXTENSION = 1
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _Version(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class _Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("error_create", ctypes.c_void_p),
        ("error_get_message", ctypes.c_void_p),
        ("error_destroy", ctypes.c_void_p),
        ("handler_register", ctypes.c_void_p),
        ("stream_get", ctypes.c_void_p),
    )


class _Span(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Bundle(ctypes.Structure):
    _fields_ = (
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
    )


class _RegisterArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("name", _Span),
        ("platform", _Span),
        ("bundle", _Bundle),
        ("traits", ctypes.c_uint32),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    )


class _StreamArguments(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


class _Extension(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version", _Version),
    )


class _List(ctypes.Structure):
    """XLA_FFI_Args, XLA_FFI_Rets."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("items", ctypes.c_void_p),
    )


class _Attributes(ctypes.Structure):
    """XLA_FFI_Attrs."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("items", ctypes.c_void_p),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("api", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _List),
        ("results", _List),
        ("attributes", _Attributes),
    )


# Reading a frame through nested structures costs more than the transfer of a small buffer. So the
# places of the few words that matter are computed here once, and read as plain integers.
_EXTENSION_AT = _CallFrame.extension.offset // _WORD
_API_AT = _CallFrame.api.offset // _WORD
_CONTEXT_AT = _CallFrame.context.offset // _WORD
_ARGUMENTS_AT = (_CallFrame.arguments.offset + _List.items.offset) // _WORD
_RESULTS_AT = (_CallFrame.results.offset + _List.items.offset) // _WORD
_ATTRIBUTES_AT = (_CallFrame.attributes.offset + _Attributes.items.offset) // _WORD
_DATA_AT = 3  # of a buffer: struct_size, extension, dtype (padded), data
_VALUE_AT = 1  # of a scalar: dtype (padded), value

_SHIFT = 3
_memory = (ctypes.c_uint64 * (1 << 45)).from_address(0)
"""The words of this process's memory: the one at an address a is `_memory[a >> _SHIFT]`. Only what
XLA has just given the address of is read."""


HOST = "Host"
"""The platform whose operands and results are in the host's memory."""

CUDA = "CUDA"
"""The platform whose operands and results are in the GPU's memory. What is called there enqueues
its work on the stream between whose kernels the call stands, and returns."""

Version = tuple[int, int]

Frame = int
"""Where the words of a call frame, XLA_FFI_CallFrame, begin: its address in words."""

Act = Callable[[Frame], object]
"""What a custom call does."""


class UnavailableError(RuntimeError):
    """This TensorFlow has no foreign calls, or none in a version that was tested."""


class ForeignCalls:
    """Python functions that XLA-compiled programs call."""

    def __init__(self) -> None:
        library = _tensorflow_library()
        if not hasattr(library, "XLA_FFI_GetApi"):
            raise UnavailableError(
                "this TensorFlow does not export XLA_FFI_GetApi (2.21 is the first that does)"
            )
        library.XLA_FFI_GetApi.restype = ctypes.c_void_p
        self._api = _Api.from_address(library.XLA_FFI_GetApi())
        self.version = (self._api.version.major, self._api.version.minor)
        if self.version not in TESTED_VERSIONS:
            raise UnavailableError(
                f"XLA's foreign-call interface has version {self.version}, and sciml_par was "
                f"tested with {', '.join(map(str, TESTED_VERSIONS))}"
            )
        # XLA keeps the bare pointers for the life of the process.
        self._kept: list[object] = []
        self._targets: set[tuple[str, str]] = set()

    def register(self, name: str, platform: str, act: Act) -> None:
        """Let custom calls named `name` on `platform` run `act` (local).

        What it raises becomes the error of the program. A name can be registered once for each
        platform, and stays for the life of the process; once more does nothing.
        """
        if (name, platform) in self._targets:
            return
        entry = c_function(act, self.version)
        name_bytes, platform_bytes = name.encode(), platform.encode()
        arguments = _RegisterArguments(
            struct_size=ctypes.sizeof(_RegisterArguments),
            name=_Span(name_bytes, len(name_bytes)),
            platform=_Span(platform_bytes, len(platform_bytes)),
            bundle=_Bundle(execute=ctypes.cast(entry, ctypes.c_void_p)),
        )
        self._kept.append((entry, arguments))
        if _FUNCTION(self._api.handler_register)(ctypes.addressof(arguments)):
            raise UnavailableError(f"XLA refused the handler {name!r} for platform {platform!r}")
        self._targets.add((name, platform))


def c_function(act: Act, version: Version) -> Any:
    """`act` as XLA can call it; keep a reference for as long as it may (local).

    Parameters
    ----------
    act : takes the call frame.
    version : of the interface, for XLA to check.
    """

    memory, extension_at = _memory, _EXTENSION_AT

    def entry(address: int) -> int | None:
        frame = address >> _SHIFT
        try:
            extension = memory[frame + extension_at]
            if extension:
                _fill_metadata(extension, version)
            else:
                act(frame)
        except BaseException as error:  # ctypes would swallow it
            return _error(frame, error)
        return None

    return _HANDLER(entry)


def on_one_tensor(handlers: Mapping[int, Callable[[int, int], object]], gone: Act) -> Act:
    """Calls the handler of the call site with the addresses of its operand and of its result.

    Written out, because a compiled loop does this at every step.

    Parameters
    ----------
    handlers : by the number of the call site, the only attribute of the custom call, an i64.
    gone : what is done where there is none.
    """
    memory, get, shift = _memory, handlers.get, _SHIFT
    attributes_at, arguments_at, results_at = _ATTRIBUTES_AT, _ARGUMENTS_AT, _RESULTS_AT

    def act(frame: Frame) -> None:
        scalar = memory[memory[frame + attributes_at] >> shift]
        handler = get(memory[memory[(scalar >> shift) + _VALUE_AT] >> shift])
        if handler is None:
            gone(frame)
        else:
            handler(
                memory[(memory[memory[frame + arguments_at] >> shift] >> shift) + _DATA_AT],
                memory[(memory[memory[frame + results_at] >> shift] >> shift) + _DATA_AT],
            )

    return act


def on_frame(acts: Mapping[int, Act], gone: Act) -> Act:
    """Does what belongs to the call site, with the frame as it is; otherwise as `on_one_tensor`."""

    def act(frame: Frame) -> None:
        scalar = _memory[_memory[frame + _ATTRIBUTES_AT] >> _SHIFT]
        number = _memory[_memory[(scalar >> _SHIFT) + _VALUE_AT] >> _SHIFT]
        acts.get(number, gone)(frame)

    return act


def one_tensor(handler: Callable[..., object], *, with_stream: bool) -> Act:
    """Calls `handler` with the addresses of the first operand and of the first result.

    Parameters
    ----------
    handler : takes (send, receive), or (send, receive, stream).
    """

    def act(frame: Frame) -> None:
        send = _memory[(_memory[_memory[frame + _ARGUMENTS_AT] >> _SHIFT] >> _SHIFT) + _DATA_AT]
        receive = _memory[(_memory[_memory[frame + _RESULTS_AT] >> _SHIFT] >> _SHIFT) + _DATA_AT]
        if with_stream:
            handler(send, receive, stream(frame))
        else:
            handler(send, receive)

    return act


def all_addresses(frame: Frame, count: int) -> bytes:
    """The addresses of the first `count` operands, 8 bytes each (local)."""
    items = _memory[frame + _ARGUMENTS_AT]
    buffers = np.frombuffer(ctypes.string_at(items, count * _WORD), np.uint64)
    first, step = int(buffers[0]), int(buffers[-1] - buffers[0]) // max(count - 1, 1)
    # XLA has them in one array. Then their words can be read at once, many times as fast.
    if step > _DATA_AT * _WORD and step % _WORD == 0 and (np.diff(buffers) == step).all():
        words = np.frombuffer(ctypes.string_at(first, count * step), np.uint64)
        return words[_DATA_AT :: step // _WORD].tobytes()
    found = [_memory[(int(buffer) >> _SHIFT) + _DATA_AT] for buffer in buffers]
    return np.array(found, np.uint64).tobytes()


def _fill_metadata(extension: int, version: Version) -> None:
    header = _Extension.from_address(extension)
    if header.type == _METADATA_EXTENSION:
        metadata = _Metadata.from_address(header.metadata)
        metadata.version.major, metadata.version.minor = version


def stream(frame: Frame) -> int:
    """XLA's stream, a CUstream, between whose kernels the call stands (local)."""
    arguments = _StreamArguments(
        struct_size=ctypes.sizeof(_StreamArguments), context=_memory[frame + _CONTEXT_AT]
    )
    api = _Api.from_address(_memory[frame + _API_AT])
    if _FUNCTION(api.stream_get)(ctypes.addressof(arguments)):
        raise RuntimeError("XLA has no stream for this call: the program does not run on a GPU.")
    return arguments.stream or 0  # the default stream is a null pointer


def _error(frame: Frame, error: BaseException) -> int | None:
    """What makes the foreign call fail with the text of `error`."""
    arguments = _ErrorArguments(
        struct_size=ctypes.sizeof(_ErrorArguments),
        message=_text(error),
        code=FAILED_PRECONDITION,
    )
    api = _Api.from_address(_memory[frame + _API_AT])
    failure: int | None = _FUNCTION(api.error_create)(ctypes.addressof(arguments))
    return failure


def _text(error: BaseException) -> bytes:
    """The text of an error, whatever it is: without one, the call would seem to have succeeded."""
    try:
        return str(error).encode(errors="backslashreplace").replace(b"\0", b"")
    except BaseException:
        return f"{type(error).__name__}, whose text cannot be made".encode()


@lru_cache(maxsize=1)
def foreign_calls() -> ForeignCalls:
    """The interface of the TensorFlow in this process, or `UnavailableError`."""
    return ForeignCalls()


def _tensorflow_library() -> ctypes.CDLL:
    import_module("tensorflow")  # so that the library is in memory
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "libtensorflow_framework" in line:
                return ctypes.CDLL(line.split(maxsplit=5)[-1].strip())
    raise UnavailableError("libtensorflow_framework is not among this process's libraries")
