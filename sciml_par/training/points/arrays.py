"""Points of the boundary that a user gives as arrays, checked against the domain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.given_points import points_within
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]


def as_boundary_points(
    value: tuple[FloatArray, FloatArray | None], domain: Domain, what: str
) -> tuple[FloatArray, FloatArray]:
    """Points of the boundary with outward unit normals, [n, d] each.

    Normals that are not given are those of the faces. On an edge, which belongs to several faces,
    that is the mean direction, which suits conditions that do not use it.
    """
    array, normals = value
    if normals is not None:
        return points_within(array, domain, f"train: {what}"), _as_normals(
            normals, array, domain, what
        )
    x = domain.snap(points_within(array, domain, f"train: {what}"))
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
