"""Whether two functions compute the same: what decides which members are one computation."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from numbers import Number
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sciml_par.training.fingerprint import surroundings

# Functions and classes of these packages change nothing between two trainings.
_UNCHANGING = frozenset(
    ("sciml_par", "tensorflow", "keras", "numpy", "scipy", "math", "builtins", "functools")
)
_DEPTH = 8


class _Same:
    """An object that equals itself alone; a key that holds it keeps it alive."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __hash__(self) -> int:
        return id(self._held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._held is self._held


class UnknownError(Exception):
    """What a function reads cannot be compared."""


def function_key(function: Any) -> Hashable | None:
    """A key that two functions share only if they compute the same; None if unknown (local).

    It holds the code and all that the code reads from outside: closure, defaults, globals, the
    object that a method belongs to, and the same of the functions that it calls. Numbers, texts
    and arrays go by their value. Anything that might change without notice, such as an object
    with attributes of its own, makes the answer unknown.
    """
    try:
        return _key(function, _DEPTH, {})
    except UnknownError:
        return None


def _key(value: Any, depth: int, seen: dict[int, int]) -> Hashable:
    if value is None or isinstance(value, bool | str | bytes | Number):
        return (type(value).__name__, repr(value))
    if depth == 0:
        raise UnknownError
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).digest()
        return (str(value.dtype), value.shape, digest)
    if isinstance(value, tuple | list):
        return (type(value).__name__, *(_key(each, depth - 1, seen) for each in value))
    if isinstance(value, dict):
        return ("dict", tuple((k, _key(value[k], depth - 1, seen)) for k in value))
    if isinstance(value, type | ModuleType | BuiltinFunctionType):
        return _of_package(value)
    if isinstance(value, FunctionType):
        return _of_function(value, depth, seen)
    if isinstance(value, MethodType):
        return ("method", _key(value.__self__, depth - 1, seen), _key(value.__func__, depth, seen))
    if isinstance(value, partial):
        given = _of_mapping(value.keywords, depth, seen)
        return ("partial", _key(value.func, depth - 1, seen), _key(value.args, depth, seen), given)
    return _of_object(value, depth, seen)


def _of_package(value: Any) -> Hashable:
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    if isinstance(value, ModuleType) and not _is_unchanging(name):
        raise UnknownError  # its attributes may be assigned to
    return _Same(value)


def _is_unchanging(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _UNCHANGING


def _of_function(function: FunctionType, depth: int, seen: dict[int, int]) -> Hashable:
    inner = "<locals>" in function.__qualname__
    if _is_unchanging(function.__module__) and not inner:
        return _Same(function)
    if id(function) in seen:  # it calls itself
        return ("again", seen[id(function)])
    seen[id(function)] = len(seen)
    around = _of_mapping(surroundings(function), depth, seen)
    return ("function", function.__code__, around)


def _of_object(value: Any, depth: int, seen: dict[int, int]) -> Hashable:
    kind = type(value)
    # A class derived from such a one may have attributes that it does not tell of.
    known = vars(kind).get("read_by_residual")
    declared = "__dataclass_params__" in vars(kind) and kind.__dataclass_params__.frozen
    if known is not None or (is_dataclass(value) and declared):
        left_out = getattr(value, "not_in_residual", ())
        names = known or [each.name for each in fields(value) if each.name not in left_out]
        held = {name: getattr(value, name) for name in names}
        return (_Same(kind), _of_mapping(held, depth, seen))
    if kind.__module__.startswith("tensorflow.") and not hasattr(value, "assign"):
        return _Same(value)  # tensors, types and the like never change
    raise UnknownError


def _of_mapping(values: Mapping[str, Any], depth: int, seen: dict[int, int]) -> Hashable:
    return tuple((name, _key(values[name], depth - 1, seen)) for name in sorted(values))
