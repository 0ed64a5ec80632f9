"""Which points of the whole job are a rank's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def piece(n: int, rank: int, size: int) -> tuple[int, int]:
    """From where to where the n rows are rank `rank`'s; the first ranks have one row more."""
    each, more = divmod(n, size)
    first = rank * each + min(rank, more)
    return first, first + each + (rank < more)


def own_rows(x: FloatArray, axis: int | None, *, rank: int, size: int) -> IntArray:
    """Return the numbers of the rows of x: [n, d] that are this rank's."""
    first, end = piece(len(x), rank, size)
    # One rank has the points in their own order, which captured arrays may rely on.
    if axis is None or size == 1:
        return np.arange(first, end)
    return np.argsort(x[:, axis], kind="stable")[first:end]


def slab(x: FloatArray, domain: Domain, *, rank: int, size: int) -> Domain | None:
    """Return the part of the box around a domain between the points of neighbouring ranks.

    x: [n, d], all points. None where the part is empty or has no thickness.
    """
    if size == 1:
        return domain
    axis = longest_axis(domain)
    sorted_x = np.sort(x[:, axis])
    first, end = piece(len(x), rank, size)
    lower, upper = domain.lower.copy(), domain.upper.copy()
    if first > 0:
        lower[axis] = sorted_x[first - 1 : first + 1].mean()
    if end < len(x):
        upper[axis] = sorted_x[end - 1 : end + 1].mean()
    if first == end or not lower[axis] < upper[axis]:
        return None
    if isinstance(domain, Box):
        return domain.with_bounds(lower, upper)
    return Box(lower, upper, names=domain.names)


def longest_axis(domain: Domain) -> int:
    """Return the axis along which a domain is divided; the first among equal ones."""
    return int(np.argmax(domain.extent))
