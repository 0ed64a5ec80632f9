"""Checks of single arguments."""

from __future__ import annotations

import operator
from typing import Any

from sciml_par.errors import InputError


def as_integer(value: Any, least: int, where: str, name: str) -> int:
    """Return a whole number of any type as Python's, which does not overflow.

    Raises
    ------
    InputError
        It is not one, or below `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InputError(f"{where}: expected {name} to be an integer ≥ {least}; got {value!r}.")
    return number
