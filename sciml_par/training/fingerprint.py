"""Short texts by which ranks compare arrays and functions that they do not exchange."""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Integral
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

_DIGITS = 12  # of a digest, in hexadecimal
_DEPTH = 4  # of functions that call functions


def of_array(array: np.ndarray) -> str:
    """Shape and digest of an array of numbers, equal where the numbers are to single precision.

    Processors of two kinds may round the last bits of a sine differently, and that is no
    difference between the ranks' programs.
    """
    rounded = np.ascontiguousarray(array, dtype=np.float32) + np.float32(0)  # −0 becomes 0
    return f"array of shape {list(array.shape)}, digest {_digest(rounded.tobytes())}"


def of_value(value: Any) -> str:
    """A number or a text as it is, an array or a function by its digest."""
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, Integral):  # NumPy's included
        return repr(int(value))
    number = _as_number(value)
    if number is not None:
        return repr(number)
    if isinstance(value, np.ndarray):
        return of_array(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(of_value, value)) + "]"
    if callable(value):
        return of_function(value)
    return type(value).__qualname__


def of_function(function: Any) -> str:
    """Name of a function, digest of its code, and the floating-point numbers that it uses.

    Those are found in its closure, its defaults, the globals that it names, the object that it
    is a method of, and likewise in the functions of its module that it calls. Integers, arrays
    and other objects are left aside: a rank's number, or data of its own, are no fault.
    """
    target, numbers = _unwrap(function)
    if not isinstance(target, FunctionType):
        return _name(target)
    found, codes = dict(numbers), []
    for part in _parts(target, _DEPTH, set()):
        codes.append(_code_bytes(part.__code__))
        found.update(_numbers(surroundings(part)))
    used = "".join(f", {name} = {value:.9g}" for name, value in sorted(found.items()))
    return f"{_name(target)} (code {_digest(b''.join(codes))}{used})"


def _unwrap(function: Any) -> tuple[Any, dict[str, float]]:
    """The plain function behind partials, methods and tf.functions, and what these bind."""
    numbers: dict[str, float] = {}
    while True:
        if isinstance(function, partial):
            positional = {f"argument {i}": value for i, value in enumerate(function.args)}
            numbers |= _numbers(positional | function.keywords)
            function = function.func
        elif isinstance(function, MethodType):
            numbers |= _numbers(_attributes(function.__self__))
            function = function.__func__
        elif hasattr(function, "python_function"):
            function = function.python_function
        elif not isinstance(function, FunctionType) and isinstance(
            vars(type(function)).get("__call__"), FunctionType
        ):
            function = MethodType(type(function).__call__, function)
        else:
            return function, numbers


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds, without what its class says not to be read by the residual."""
    left_out = getattr(value, "not_in_residual", ())
    held = getattr(value, "__dict__", {})
    return {name: held[name] for name in held if name not in left_out}


def _parts(function: FunctionType, depth: int, seen: set[int]) -> Iterator[FunctionType]:
    """The function, and those of its module that it names, each once."""
    if id(function) in seen:
        return
    seen.add(id(function))
    yield function
    if depth > 0:
        for value in surroundings(function).values():
            if isinstance(value, FunctionType) and value.__module__ == function.__module__:
                yield from _parts(value, depth - 1, seen)


def surroundings(function: FunctionType) -> dict[str, Any]:
    """What the function finds around itself, by name."""
    around: dict[str, Any] = {}
    for name in _names(function.__code__):
        if name in function.__globals__:
            around[name] = function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return around | _defaults(function)


def _defaults(function: FunctionType) -> dict[str, Any]:
    """The arguments that have a default, and these."""
    values = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    of_names = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return of_names | (function.__kwdefaults__ or {})


def _names(code: CodeType) -> list[str]:
    """The globals that the code reads; its `co_names` would have the attributes as well."""
    inner = [name for c in code.co_consts if isinstance(c, CodeType) for name in _names(c)]
    read = [step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"]
    return [*read, *inner]


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    found = {name: _as_number(value) for name, value in values.items()}
    return {name: number for name, number in found.items() if number is not None}


def _as_number(value: Any) -> float | None:
    """A floating-point number, also as an array, tensor or variable without axes."""
    if isinstance(value, float):
        return float(value)
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # a symbolic tensor, or an object that only looks like an array
        return None
    return float(array) if array.dtype.kind == "f" else None


def _code_bytes(code: CodeType) -> bytes:
    """What the code does, without the names of files and the numbers of lines."""
    constants = [
        _code_bytes(c) if isinstance(c, CodeType) else _constant_text(c).encode()
        for c in code.co_consts
    ]
    return b"\0".join([code.co_code, repr((code.co_names, code.co_varnames)).encode(), *constants])


def _constant_text(constant: Any) -> str:
    if isinstance(constant, frozenset):  # in an order that differs from process to process
        return repr(sorted(map(repr, constant)))
    return repr(constant)


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()[:_DIGITS]
