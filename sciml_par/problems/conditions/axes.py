"""Axes of a domain by name or number, and points at one position of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_integer
from sciml_par.errors import InputError
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]

_ROUNDING = 8 * float(np.finfo(np.float32).eps)


def lies_at(x: FloatArray, domain: Domain, axis: int, position: float) -> npt.NDArray[np.bool_]:
    """Which points have this coordinate up to rounding of single precision: [n, d] -> [n]."""
    largest = max(abs(domain.lower[axis]), abs(domain.upper[axis]), domain.extent[axis])
    found = np.abs(x[:, axis] - position) <= _ROUNDING * largest
    return np.asarray(found)


def axis_number(axis: Any, domain: Domain, owner: str) -> int:
    """Return the number of an axis that is given by name or number."""
    if isinstance(axis, str) and axis in domain.names:
        return domain.names.index(axis)
    if is_integer(axis) and 0 <= axis < domain.dimension:
        return int(axis)
    known = ", ".join(f"{name!r} ({i})" for i, name in enumerate(domain.names))
    raise InputError(f"{owner}: {domain} has no axis {axis!r}; its axes are {known}")


def checked_axis(axis: Any, owner: str) -> int | str:
    """Let a name or a number through."""
    if isinstance(axis, str) or (is_integer(axis) and axis >= 0):
        return axis if isinstance(axis, str) else int(axis)
    raise InputError(f"{owner}: axis must be a coordinate's name or number from 0, got {axis!r}")
