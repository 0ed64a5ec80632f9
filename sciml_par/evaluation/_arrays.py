"""Convert arguments to read-only float64 arrays, or raise an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sciml_par._masked import with_gaps
from sciml_par.errors import InputError

Item = TypeVar("Item")
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
    """Return a read-only float64 copy of shape [n, columns]; a vector [n] becomes [n, 1]."""
    if isinstance(values, np.ndarray) and values.flags.owndata and not values.flags.writeable:
        is_such_a_copy = values.dtype == np.float64 and values.ndim == 2 and values.shape[1] > 0
        if is_such_a_copy:
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


def keep(item: object, **values: object) -> None:
    """Set fields of a frozen dataclass, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


def check_label(label: object, where: str) -> None:
    """Refuse a label that a legend cannot show."""
    if not isinstance(label, str) or not label.strip() or label.startswith("_"):
        raise InputError(
            f"{where}: expected a label such as 'rank 0', not blank and without a leading "
            f"underscore (legends hide those); got {label!r}."
        )


def check_finite(values: np.ndarray, where: str) -> None:
    """Raise an error if a value is not finite."""
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise InputError(f"{where}: expected finite numbers; {bad} of {values.size} are not.")


def check_items(items: Iterable[Item], kind: type[Item], where: str) -> tuple[Item, ...]:
    """Return `items` as a tuple of at least one `kind`."""
    if isinstance(items, kind):
        raise InputError(f"{where}: expected a sequence of {kind.__name__}; pass [it].")
    try:
        found = tuple(items)
    except TypeError:
        found = ()
    wrong = [item for item in found if not isinstance(item, kind)]
    if not found or wrong:
        got = f"a {type(wrong[0]).__name__} among them" if wrong else "none"
        raise InputError(f"{where}: expected one {kind.__name__} or more in a list; got {got}.")
    return found
