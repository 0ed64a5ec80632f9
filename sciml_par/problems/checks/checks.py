"""Checks of functions and arrays that users pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError


def check_takes(
    function: Callable[..., Any], arguments: str, *, what: str, more_by_name: bool = False
) -> None:
    """Check that a function can be called with so many arguments by their places."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of functions that are not written in Python
        return
    given = [None] * len(arguments.split(","))
    try:
        (signature.bind_partial if more_by_name else signature.bind)(*given)
    except TypeError:
        raise InputError(
            f"{what} must be a function of ({arguments}), got one of {signature}"
        ) from None


def as_columns(
    values: npt.ArrayLike, n: int, *, what: str, columns: int | None = None
) -> npt.NDArray[np.float64]:
    """Values at n points as an array [n, m]; [n] is taken as [n, 1] where m may be 1."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be real numbers, got dtype {array.dtype}")
    if array.shape == (n,) and columns in (None, 1):
        array = array[:, None]
    good = array.ndim == 2 and array.shape[0] == n and columns in (None, array.shape[1])
    if not good:
        expected = f"[{n}, {'k' if columns is None else columns}]"
        raise InputError(
            f"{what} must have the shape {expected} at {n} points, got {list(array.shape)}; "
            f"one coordinate of the points is x[:, i:i+1], which keeps both axes"
        )
    return array.astype(np.float64)
