"""Arrays that users pass: numbers, points, vectors, and counts for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_integer
from sciml_par._masked import with_gaps
from sciml_par.errors import InputError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def finite_array(value: Any, what: str) -> FloatArray:
    """Return a copy of finite numbers as float64, from anything that NumPy reads."""
    try:
        array = np.array(with_gaps(value))
    except Exception as error:  # each library raises its own for what NumPy cannot read
        raise InputError(f"{what} cannot be read as an array of numbers: {error}") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be an array of real numbers, got {value!r}")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array)
    if bad.any():
        place = [int(i) for i in np.argwhere(bad)[0]]
        row = f" in row {place[0]}" if place else ""
        raise InputError(
            f"{what} must hold finite numbers; {int(bad.sum())} of {array.size} are not, the first "
            f"of them{row}: {array[tuple(place)]}. Leave out the rows with missing values."
        )
    return array


def checked_vector(value: npt.ArrayLike, what: str) -> FloatArray:
    """Return one finite number per axis as a read-only array [d]; a number is taken as [1]."""
    array = np.atleast_1d(finite_array(value, what))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{what} must hold one finite number per axis, got {value!r}")
    array.setflags(write=False)
    return array


def checked_points(value: npt.ArrayLike, what: str, *, d: int | None = None) -> FloatArray:
    """Return finite points as a read-only array [n, d], n >= 1; [n] is taken as [n, 1]."""
    array = finite_array(value, what)
    if array.ndim == 1 and d in (None, 1):
        array = array[:, None]
    if array.ndim != 2 or array.size == 0 or d not in (None, array.shape[1]):
        expected = "d" if d is None else str(d)
        raise InputError(
            f"{what} must have the shape [n, {expected}] with n >= 1, a row for each point; got "
            f"{list(array.shape)}"
        )
    array.setflags(write=False)
    return array


def counts_per_axis(n: Any, dimension: int, *, what: str, least: int) -> list[int]:
    """Return the number of points on each axis, from d integers, or one for d = 1."""
    counts = list(n) if isinstance(n, (Sequence, np.ndarray)) and not isinstance(n, str) else [n]
    if len(counts) != dimension or not all(is_integer(each) and each >= least for each in counts):
        raise InputError(
            f"{what}: n must be an int, or {dimension} ints, one per axis, of at least {least}; "
            f"got {n!r}"
        )
    return [int(each) for each in counts]
