"""Checks of points and vectors that several shapes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_integer
from sciml_par.errors import InputError

FloatArray = npt.NDArray[np.float64]


def checked_vector(value: npt.ArrayLike, what: str) -> FloatArray:
    """One finite number per axis as a read-only array [d]; a number is taken as [1]."""
    try:
        array = np.atleast_1d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} must be a number or a sequence of numbers, got {value!r}"
        ) from error
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise InputError(f"{what} must hold one finite number per axis, got {value!r}")
    array.setflags(write=False)
    return array


def checked_points(value: npt.ArrayLike, what: str, *, d: int | None = None) -> FloatArray:
    """Finite points as a read-only array [n, d], n >= 1; [n] is taken as [n, 1]."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be an array of numbers [n, d]: {error}") from error
    if array.ndim == 1 and d in (None, 1):
        array = array[:, None]
    if array.ndim != 2 or array.size == 0 or d not in (None, array.shape[1]):
        expected = "d" if d is None else str(d)
        raise InputError(
            f"{what} must have the shape [n, {expected}] with n >= 1, a row for each point; got "
            f"{list(array.shape)}"
        )
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise InputError(f"{what} must be finite numbers; row {row} is {array[row]}")
    array.setflags(write=False)
    return array


def counts_per_axis(n: Any, dimension: int, *, what: str, least: int) -> list[int]:
    """How many points each axis has, from d integers of at least `least`, or one for d = 1."""
    counts = list(n) if isinstance(n, (Sequence, np.ndarray)) and not isinstance(n, str) else [n]
    if len(counts) != dimension or not all(is_integer(each) and each >= least for each in counts):
        raise InputError(
            f"{what}: n must be an int, or {dimension} ints, one per axis, of at least {least}; "
            f"got {n!r}"
        )
    return [int(each) for each in counts]
