"""Records as JSON has them, and read again by the types of their fields.

A record is a dataclass or a NamedTuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from inspect import signature
from itertools import repeat
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")
Entry = dict[str, Any]
Arrays = Mapping[str, np.ndarray]
Names = Mapping[type, str]

_INFINITE = ("best_loss", "degrees")
"""Fields of which null is infinity; of others it is NaN."""


def to_json(value: Any, names: Names | None = None) -> Any:
    """Return a value as JSON has it: numbers that are not finite as null, arrays as lists.

    names : of the entries of records, in order, by default those of all fields; as in "loss
        member=number outputs=prediction.fields box=lower,upper", where attributes differ.
    """
    names = names or {}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: to_json(item, names) for name, item in value.items()}
    columns = names.get(type(value), " ".join(_fields(value.__class__))).split()
    if columns:
        paths = {column.split("=")[0]: column.split("=")[-1] for column in columns}
        items = {name: attrgetter(*path.split(","))(value) for name, path in paths.items()}
        return to_json(items, names)
    return [to_json(item, names) for item in value] if isinstance(value, tuple | list) else value


def from_json(kind: Any, value: Any) -> Any:
    """Return a value of this type from what `to_json` made of it."""
    origin, of = get_origin(kind), get_args(kind)
    if value is None:
        return None if kind in (Any, None) or NoneType in of else math.nan
    if origin in (Union, UnionType):
        return from_json(of[0], value)
    if origin is tuple:
        kinds = repeat(of[0]) if of[-1] is ... else of
        return tuple(map(from_json, kinds, value))
    if origin is np.ndarray:
        return np.array(value, np.float64)
    if origin is Mapping:
        return {name: from_json(of[1], item) for name, item in dict(value).items()}
    return read(kind, value) if isinstance(kind, type) and _fields(kind) else value


def read(kind: Callable[..., T], entry: Entry, **others: Any) -> T:
    """Return a record of an entry and of `others`; what both lack has its default.

    Raises
    ------
    KeyError
        There is no default.
    """
    arguments = dict(others)
    for name, (of, optional) in _fields(kind).items():
        if name not in others and (name in entry or not optional):
            value = entry[name]
            infinite = value is None and name in _INFINITE
            arguments[name] = math.inf if infinite else from_json(of, value)
    return kind(**arguments)


def arrays_of(record: Any, form: str) -> dict[str, np.ndarray]:
    """Return the arrays of a record by the names of their fields in this form, as "{}_member_0"."""
    return {form.format(name): getattr(record, name) for name in _arrays(type(record))}


def with_arrays(kind: Callable[..., T], entry: Entry, arrays: Arrays, form: str) -> T:
    """Return the record of an entry whose arrays have names of this form."""
    return read(kind, entry, **{name: arrays[form.format(name)] for name in _arrays(kind)})


def _arrays(kind: Any) -> list[str]:
    return [n for n, (of, _) in _fields(kind).items() if np.ndarray in (of, get_origin(of))]


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return of each field of a record its type and whether it has a default."""
    if not (is_dataclass(kind) or hasattr(kind, "_fields")):
        return {}
    types, parameters = get_type_hints(kind), signature(kind).parameters.items()
    return {name: (types[name], p.default is not p.empty) for name, p in parameters}
