"""Turn what a caller passes into read-only float64 arrays, or say what is wrong with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sciml_par._masked import with_gaps
from sciml_par.errors import InputError

_NOT_REAL = "cOSUMm"  # complex, objects, bytes, text, dates, durations


def as_real(values: ArrayLike, where: str) -> np.ndarray:
    """Return `values` as a float64 array of any shape."""
    try:
        array = np.asarray(with_gaps(values))
        # NumPy would turn None into nan, drop imaginary parts, and read numbers out of text.
        if array.dtype.kind in _NOT_REAL:
            raise TypeError(f"got dtype {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise InputError(f"{where}: expected an array of real numbers; {reason}.") from error


def as_columns(values: ArrayLike, where: str) -> np.ndarray:
    """Return a read-only float64 copy of shape [n, columns]; a vector [n] becomes [n, 1].

    An array that is such a copy already is returned itself.
    """
    if isinstance(values, np.ndarray) and _is_such_a_copy(values):
        return values
    array = as_real(values, where)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"{where}: expected an array of shape [n, columns] or [n]; got shape "
            f"{list(array.shape)}. Reshape it to one row a point."
        )
    array.flags.writeable = False
    return array


def _is_such_a_copy(array: np.ndarray) -> bool:
    kept = array.flags.owndata and not array.flags.writeable
    return kept and array.dtype == np.float64 and array.ndim == 2 and array.shape[1] > 0


def check_label(label: object, where: str) -> None:
    """Refuse a label that a legend cannot show."""
    if not isinstance(label, str) or not label.strip() or label.startswith("_"):
        raise InputError(
            f"{where}: expected a label such as 'rank 0', not blank and without a leading "
            f"underscore (legends hide those); got {label!r}."
        )
