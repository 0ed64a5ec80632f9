"""The unknowns of a problem as they are given to it: numbers and functions, by name."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.problems.unknowns.unknowns import Unknown

_TAKEN = ("u", "x", "self")


def checked_unknowns(
    given: Any, *, coordinates: Sequence[str], outputs: Sequence[str]
) -> tuple[MappingProxyType[str, Unknown], dict[str, UnknownFunction]]:
    """Numbers and functions that are sought, by name.

    A plain number is where an unknown without bounds begins.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"Problem: unknowns must be a dictionary of names, such as "
            f"{{'D': Unknown(1.0, lower=0)}}; got {given!r}."
        )
    taken = dict.fromkeys(_TAKEN, "an argument of the residual")
    taken |= dict.fromkeys(outputs, "an output") | dict.fromkeys(coordinates, "a coordinate")
    numbers, functions = {}, {}
    for name, value in given.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(
                f"Problem: the name of an unknown is that of an argument of the residual, such as "
                f"'D' in f(u, x, *, D); got {name!r}."
            )
        if name in taken:
            raise InputError(
                f"Problem: {name!r} is the name of an unknown and of {taken[name]}; give the "
                f"unknown another one."
            )
        if isinstance(value, UnknownFunction):
            functions[name] = value
        else:
            numbers[name] = _as_unknown(name, value)
    return MappingProxyType(numbers), functions


def _as_unknown(name: str, value: Any) -> Unknown:
    if isinstance(value, Unknown):
        return value
    if hasattr(value, "assign"):  # a variable of TensorFlow or Keras
        raise InputError(
            f"Problem: unknowns={{{name!r}: …}} takes where the coefficient begins, not a "
            f"variable: write {name!r}: Unknown({np.asarray(value).tolist()}); the result has what "
            f"it becomes."
        )
    if callable(value):  # a function, a Keras model, or the class in place of an object
        network = ", network=…" if hasattr(value, "trainable_variables") else ""
        raise InputError(
            f"Problem: unknowns={{{name!r}: …}} is a number or a function that is sought; got "
            f"{value!r}. A function of x has a start and a separate network: "
            f"write {name!r}: UnknownFunction(1.0{network})."
        )
    try:
        return Unknown(value)
    except InputError as error:
        raise InputError(
            f"Problem: unknowns={{{name!r}: …}} must be an Unknown, as Unknown(1.0, lower=0), or a "
            f"number; got {value!r}."
        ) from error
