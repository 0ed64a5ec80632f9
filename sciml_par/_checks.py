"""Checks of numbers and flags that users pass."""

from __future__ import annotations

import math
import operator
from numbers import Integral, Real
from typing import Any

from sciml_par.errors import InputError


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, NumPy's included and booleans excluded."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether it is a plain number, NumPy's included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_positive(value: Any) -> bool:
    """Return whether a value is a positive finite number."""
    return is_number(value) and 0 < float(value) < math.inf


def checked_integer(value: Any, what: str, *, least: int) -> int:
    """Return an integer of any type as Python's, which does not overflow; raise if it is less."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InputError(f"{what} must be an integer of at least {least}, got {value!r}")
    return number


def check_number(where: str, name: str, value: Any, expected: str, good: Any) -> None:
    """Check that a value is a finite number of which `good` is true, as `expected` says."""
    if not is_number(value) or not math.isfinite(value) or not good(value):
        raise InputError(f"{where}: expected {name} to be a number {expected}; got {value!r}.")


def check_flag(where: str, name: str, value: Any, *, or_none: bool = False) -> None:
    """Check that a value is True or False, or None if that is allowed as well."""
    if not isinstance(value, bool) and not (or_none and value is None):
        kinds = "True, False or None" if or_none else "True or False"
        raise InputError(f"{where}: expected {name} to be {kinds}; got {value!r}.")


def check_fraction(where: str, **values: Any) -> None:
    """Check that each value is in [0, 1)."""
    for name, value in values.items():
        check_number(where, name, value, "in [0, 1)", lambda v: 0 <= v < 1)


def check_positive(where: str, **values: Any) -> None:
    """Check that each value is greater than zero."""
    for name, value in values.items():
        check_number(where, name, value, "> 0", lambda v: v > 0)


def check_not_negative(where: str, **values: Any) -> None:
    """Check that no value is less than zero."""
    for name, value in values.items():
        check_number(where, name, value, "≥ 0", lambda v: v >= 0)


def checked_number(value: Any, what: str) -> float:
    """Let a finite real number through."""
    if not is_number(value) or not math.isfinite(value):
        raise InputError(f"{what} must be a finite number, got {value!r}")
    return float(value)


def checked_weight(value: Any, owner: str) -> float:
    """Let a finite weight of at least 0 through."""
    weight = checked_number(value, f"{owner}: weight")
    if weight < 0:
        raise InputError(f"{owner}: weight must not be negative, got {value!r}")
    return weight


class Same:
    """An object that equals itself alone; a key that holds it keeps it alive."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __hash__(self) -> int:
        return id(self.held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.held is self.held
