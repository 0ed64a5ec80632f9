"""Arrays of points that a user gives: made NumPy arrays, and checked against the domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._masked import with_gaps
from sciml_par.errors import InputError
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]


def as_array(value: Any, what: str) -> FloatArray:
    """Numbers as a NumPy array: lists, tensors, data frames and what else NumPy reads."""
    try:
        array = np.asarray(with_gaps(value))
    except Exception as error:  # each library raises its own for what NumPy cannot read
        raise InputError(
            f"{what} cannot be read as an array of numbers: {error} Pass a NumPy array."
        ) from error
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"{what} must be an array of real numbers; got {type(value).__name__} of dtype "
            f"{array.dtype}."
        )
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(map(int, np.argwhere(bad)[0]))
        raise InputError(
            f"{what} must hold finite numbers; {int(bad.sum())} of {array.size} are not, the first "
            f"of them at {list(first)}. Leave out the rows with missing values."
        )
    return array.astype(np.float64)


def as_points(array: FloatArray, domain: Domain, what: str) -> FloatArray:
    """Points of the domain: [n, d], or [n] where d = 1.

    What lies outside by no more than the rounding of single precision is moved onto the boundary.
    """
    d = domain.dimension
    x = array[:, None] if array.ndim == 1 and d == 1 else array
    if x.ndim != 2 or x.shape[1] != d or len(x) == 0:
        raise InputError(
            f"train: expected {what} of shape [n, {d}] with n ≥ 1; got {array.shape}."
            + (" One row is one point." if array.shape[:1] == (d,) else "")
        )
    x = np.where(domain.admits(x)[:, None], x, domain.snap(x))
    outside = ~domain.admits(x)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(
            f"train: {int(outside.sum())} of {len(x)} {what} lie outside {domain}, the first of "
            f"them number {first}: {x[first]}."
        )
    return x


def as_boundary_points(
    value: tuple[FloatArray, FloatArray | None], domain: Domain, what: str
) -> tuple[FloatArray, FloatArray]:
    """Points of the boundary with outward unit normals, [n, d] each.

    Normals that are not given are those of the faces. On an edge, which belongs to several faces,
    that is the mean direction, which suits conditions that do not use it.
    """
    array, normals = value
    if normals is not None:
        return as_points(array, domain, what), _as_normals(normals, array, domain, what)
    x = domain.snap(as_points(array, domain, what))
    normals = domain.outward_normals(x)
    inside = ~domain.on_boundary(x)
    if inside.any():
        first = int(np.argmax(inside))
        raise InputError(
            f"train: {int(inside.sum())} of {len(x)} {what} do not lie on the boundary of "
            f"{domain}, the first of them number {first}: {x[first]}. Give a pair (x, normals) "
            f"where points inside are meant."
        )
    return x, normals


def _as_normals(normals: FloatArray, x: FloatArray, domain: Domain, what: str) -> FloatArray:
    n, d = len(x), domain.dimension
    found = normals[:, None] if normals.ndim == 1 and d == 1 else normals
    if found.shape != (n, d):
        raise InputError(
            f"train: the normals of {what} must have the shape [{n}, {d}] of the points; got "
            f"{normals.shape}."
        )
    return found
