"""Short texts of optimizers and schedules, and keys by which compiled loops are found again."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np

from sciml_par._checks import is_integer, is_number
from sciml_par._other_names import ByName
from sciml_par.training.identity.fingerprint import of_array


class Described(ByName):
    """A frozen dataclass with a description and a key."""

    def describe(self) -> dict[str, str]:
        """Return the hyper-parameters by name, as texts that are equal on all ranks (local)."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__qualname__} | {
            name: text_of(value) for name, value in values.items()
        }

    @property
    def key(self) -> Hashable:
        """A key that is equal for objects with the same operations in a compiled loop."""
        values = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return (type(self), *map(key_of, values))


def text_of(value: Any) -> str:
    """Return a value as a short text that is equal in all processes and has no addresses.

    Arrays are given by a digest, functions and other objects by their names.
    """
    if isinstance(value, Described):
        found = value.describe()
        inner = ", ".join(f"{n}={text}" for n, text in found.items() if n != "kind")
        return f"{found['kind']}({inner})"
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if is_integer(value):
        return repr(int(value))
    number = _as_number(value)
    if number is not None:
        return repr(number)
    if isinstance(value, np.ndarray):
        return of_array(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {text_of(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, re.Pattern):  # Keras makes it of a set of words, which has no order
        return repr("|".join(sorted(value.pattern.split("|"))))
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__)


def _as_number(value: Any) -> float | None:
    """Return a floating-point number, also as an array, tensor or variable without axes."""
    if is_number(value):
        return float(value)
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # a symbolic tensor, or an object that only looks like an array
        return None
    return float(array) if array.dtype.kind == "f" else None


def key_of(value: Any) -> Hashable:
    """Return a hyper-parameter by its value; an object of another kind by its identity.

    The object itself stands in the key, so that no other one can take its address.
    """
    if isinstance(value, Described):
        return value.key
    if isinstance(value, Real | str | type(None) | re.Pattern):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return tuple(map(key_of, value))
    if isinstance(value, Mapping):
        return tuple((name, key_of(each)) for name, each in sorted(value.items()))
    return _Same(value)


class _Same:
    """An object that is equal to no other."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)
