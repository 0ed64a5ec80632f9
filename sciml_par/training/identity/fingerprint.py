"""Short texts by which ranks compare arrays and numbers that they do not exchange."""

from __future__ import annotations

import hashlib
from numbers import Integral
from typing import Any

import numpy as np

_DIGITS = 12  # of a digest, in hexadecimal


def of_array(array: np.ndarray) -> str:
    """Shape and digest of an array of numbers, equal where the numbers are to single precision.

    Processors of two kinds may round the last bits of a sine differently, and that is no
    difference between the ranks' programs.
    """
    rounded = np.ascontiguousarray(array, dtype=np.float32) + np.float32(0)  # −0 becomes 0
    return f"array of shape {list(array.shape)}, digest {_digest(rounded.tobytes())}"


def of_value(value: Any) -> str:
    """Return a number or a text as it is, an array by its digest, a function by its name."""
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
        return str(getattr(value, "__qualname__", None) or type(value).__qualname__)
    return type(value).__qualname__


def _as_number(value: Any) -> float | None:
    """Return a floating-point number, also as an array, tensor or variable without axes."""
    if isinstance(value, float):
        return float(value)
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # a symbolic tensor, or an object that only looks like an array
        return None
    return float(array) if array.dtype.kind == "f" else None


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()[:_DIGITS]
