"""Foreign calls from XLA-compiled programs to Python, by XLA's C interface and ctypes.

TensorFlow's wheel exports `XLA_FFI_GetApi`. On the host a call costs about two microseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from sciml_par._tensorflow import import_module
from sciml_par.parallel.execution.xla_call_sites import SHIFT, Act, Frame, memory
from sciml_par.parallel.native.interrupts import keep, kept
from sciml_par.parallel.native.xla_structures import (
    API_AT,
    EXTENSION_AT,
    FUNCTION,
    Api,
    Bundle,
    ErrorArguments,
    Extension,
    Metadata,
    RegisterArguments,
    Span,
)

TESTED_VERSIONS = ((0, 2),)
"""The (major, minor) versions of the interface that this module was tested with."""

FAILED_PRECONDITION = 9
"""The error code that TensorFlow raises as `tf.errors.FailedPreconditionError`."""

_METADATA_EXTENSION = 1


HOST = "Host"
"""The platform whose operands and results are in the host's memory."""

CUDA = "CUDA"
"""The platform whose operands and results are in the GPU's memory. A call enqueues its work on
XLA's stream, and returns."""

Version = tuple[int, int]


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
        self._api = Api.from_address(library.XLA_FFI_GetApi())
        self.version = (self._api.version.major, self._api.version.minor)
        if self.version not in TESTED_VERSIONS:
            raise UnavailableError(
                f"XLA's foreign-call interface has version {self.version}, and sciml_par was "
                f"tested with {', '.join(map(str, TESTED_VERSIONS))}"
            )
        # XLA keeps the bare pointers for the life of the process.
        self._kept: list[object] = []
        self._targets: set[tuple[str, str]] = set()
        interrupted = ErrorArguments(
            struct_size=ctypes.sizeof(ErrorArguments),
            message=b"A signal's handler raised an exception in a compiled program.",
            code=FAILED_PRECONDITION,
        )
        self._kept.append(interrupted)
        create, arguments = FUNCTION(self._api.error_create), ctypes.addressof(interrupted)
        self._interruptions: Iterator[int] = map(create, itertools.repeat(arguments))

    def register(self, name: str, platform: str, act: Act) -> None:
        """Let custom calls named `name` on `platform` run `act`."""
        if not self.has(name, platform):
            self.register_address(name, platform, self.entry(act))

    def has(self, name: str, platform: str) -> bool:
        """Return whether that target is registered."""
        return (name, platform) in self._targets

    def entry(self, act: Act) -> int:
        """Return the address at which C can call `act`, for the life of the process."""
        entry = c_function(act, self.version, self._interruptions)
        self._kept.append(entry)
        return ctypes.cast(entry, ctypes.c_void_p).value or 0

    def register_address(self, name: str, platform: str, address: int) -> None:
        """Register machine code under a new name."""
        name_bytes, platform_bytes = name.encode(), platform.encode()
        arguments = RegisterArguments(
            struct_size=ctypes.sizeof(RegisterArguments),
            name=Span(name_bytes, len(name_bytes)),
            platform=Span(platform_bytes, len(platform_bytes)),
            bundle=Bundle(execute=address),
        )
        self._kept.append(arguments)
        if FUNCTION(self._api.handler_register)(ctypes.addressof(arguments)):
            raise UnavailableError(f"XLA refused the handler {name!r} for platform {platform!r}")
        self._targets.add((name, platform))


def c_function(act: Act, version: Version, interruptions: Iterator[int]) -> Any:
    """Return `act` as a C function; keep a reference as long as XLA may call it."""

    words, extension_at = memory, EXTENSION_AT

    def entry(address: int) -> int | None:
        try:
            try:
                frame = address >> SHIFT
                extension = words[frame + extension_at]
                if extension:
                    _fill_metadata(extension, version)
                else:
                    act(frame)
            except BaseException as error:
                first = error
                if not isinstance(error, Exception):
                    keep(error)
            else:
                return None
            while True:
                # A signal's handler may raise here as well.
                with contextlib.suppress(BaseException):
                    return _error(address >> SHIFT, first)
        except BaseException as error:
            # Or between two of these lines. Python runs handlers after calls and at jumps back, and
            # here are none.
            kept[:] = [error]
            for interruption in interruptions:
                return interruption
        return None

    _cover_the_start(entry)
    return FUNCTION(entry)


def _cover_the_start(function: Callable[..., object]) -> None:
    """Extend the first `try` of a function, its first statement, to the function's start.

    Python also runs signals' handlers as a function starts. The exception table has (start, length,
    handler, depth) of each covered range of instructions, in digits of six bits; see "Exception
    Handling" in CPython's InternalDocs.
    """
    table = function.__code__.co_exceptiontable
    numbers, number, length = list[int](), 0, 0
    while len(numbers) < 4:
        number = number << 6 | table[length] & 63
        if not table[length] & 64:
            numbers.append(number)
            number = 0
        length += 1
    start, covered, *handler = numbers
    first = b"".join(_digits(each) for each in (0, start + covered, *handler))
    table = bytes([first[0] | 128, *first[1:], *table[length:]])
    function.__code__ = function.__code__.replace(co_exceptiontable=table)


def _digits(number: int) -> bytes:
    """Return a number in six bits a byte; all but the last have the seventh set."""
    digits = [number & 63]
    while number := number >> 6:
        digits.insert(0, number & 63 | 64)
    return bytes(digits)


def _fill_metadata(extension: int, version: Version) -> None:
    header = Extension.from_address(extension)
    if header.type == _METADATA_EXTENSION:
        metadata = Metadata.from_address(header.metadata)
        metadata.version.major, metadata.version.minor = version


def _error(frame: Frame, error: BaseException) -> int | None:
    """Return XLA's error with the text of `error`."""
    arguments = ErrorArguments(
        struct_size=ctypes.sizeof(ErrorArguments), message=_text(error), code=FAILED_PRECONDITION
    )
    api = Api.from_address(memory[frame + API_AT])
    failure: int | None = FUNCTION(api.error_create)(ctypes.addressof(arguments))
    return failure


def _text(error: BaseException) -> bytes:
    """Return the text of any error: without one, the call would seem to have succeeded."""
    try:
        text = str(error) or type(error).__name__
        return text.encode(errors="backslashreplace").replace(b"\0", b"")
    except BaseException:
        return f"{type(error).__name__}, whose text cannot be made".encode()


@lru_cache(maxsize=1)
def foreign_calls() -> ForeignCalls:
    """Return the interface of the TensorFlow in this process, or `UnavailableError`."""
    return ForeignCalls()


def _tensorflow_library() -> ctypes.CDLL:
    import_module("tensorflow")  # so that the library is in memory
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "libtensorflow_framework" in line:
                return ctypes.CDLL(line.split(maxsplit=5)[-1].strip())
    raise UnavailableError("libtensorflow_framework is not among this process's libraries")
