"""Axes of a domain and components of u, by name or number, and points of it, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import ROUNDING


def lies_at(x: FloatArray, domain: Domain, axis: int, position: float) -> BoolArray:
    """Return which points have this coordinate to single precision: [n, d] -> [n]."""
    largest = max(abs(domain.lower[axis]), abs(domain.upper[axis]), domain.extent[axis])
    found = np.abs(x[:, axis] - position) <= ROUNDING * largest
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


def checked_at(at: Any, owner: str, form: str) -> tuple[int | str, Any]:
    """Return the axis and what follows it of a pair, which must have this form."""
    if not isinstance(at, (tuple, list)) or len(at) != 2:
        raise InputError(f"{owner}: at must be a pair {form}; got {at!r}")
    return checked_axis(at[0], owner), at[1]


Component = int | str | Sequence[int | str]
Components = tuple[int | str, ...]


def as_components(component: Any, what: str) -> Components | None:
    """Return a name or number, or several, as a tuple; None stands for all components."""
    if component is None:
        return None
    several = (component,) if isinstance(component, str) or is_integer(component) else component
    good = isinstance(several, (tuple, list)) and several
    if not good or not all(isinstance(c, str) or is_integer(c) for c in several):
        raise InputError(
            f"{what} must be a name of Problem(outputs=...) or a number from 0, or several of "
            f"them, got {component!r}"
        )
    if len(set(several)) < len(several):
        raise InputError(f"{what} names a component twice, got {component!r}")
    return tuple(c if isinstance(c, str) else int(c) for c in several)


def numbers_of(
    components: Components | None, outputs: Sequence[str], what: str
) -> tuple[int, ...] | None:
    """Return the same by their numbers, in a problem whose components have these names."""
    if components is None:
        return None
    known = ", ".join(f"{name!r} ({i})" for i, name in enumerate(outputs))
    found = []
    for c in components:
        place = outputs.index(c) if c in outputs else c
        if not isinstance(place, int) or not 0 <= place < len(outputs):
            raise InputError(f"{what}: u has no component {c!r}; its components are {known}")
        found.append(place)
    if len(set(found)) < len(found):
        raise InputError(f"{what} names a component twice, got {components!r}; there are {known}")
    return tuple(found)


def select(u: tf.Tensor, components: Components | None, owner: str) -> tf.Tensor:
    """Select components of values or derivatives: [n, m] -> [n, c], [n, m, d] -> [n, c, d]."""
    if components is None:
        return u
    m = u.shape[1]
    for c in components:
        if not isinstance(c, int) or not 0 <= c < m:
            raise InputError(
                f"{owner}: component {c!r} is not among the {m} of u; names are known where the "
                f"condition belongs to a Problem(outputs=...)"
            )
    if components == tuple(range(m)):
        return u
    return tf.stack([u[:, c] for c in components], axis=1)


def points_within(x: FloatArray, domain: Domain, what: str) -> FloatArray:
    """Return points [n, d], or [n] if d = 1, of the closed domain."""
    d = domain.dimension
    points = x[:, None] if x.ndim == 1 and d == 1 else x
    if points.ndim != 2 or points.shape[1] != d or len(points) == 0:
        raise InputError(
            f"{what} must have the shape [n, {d}] with n ≥ 1, got {list(x.shape)}"
            + ("; one row is one point" if x.shape[:1] == (d,) else "")
        )
    points = np.where(domain.admits(points)[:, None], points, domain.snap(points))
    outside = ~domain.admits(points)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(
            f"{what}: {int(outside.sum())} of {len(points)} lie outside {domain}, the first of "
            f"them number {first}: {points[first].tolist()}"
        )
    return points


def normals_at(x: FloatArray, domain: Domain, owner: str) -> FloatArray:
    """Return the outward unit normals at points of the boundary: x: [n, d] -> [n, d]."""
    normals = domain.outward_normals(x)
    alone = np.isclose(np.linalg.norm(normals, axis=1), 1.0) & ~domain.on_edges(x)
    if not alone.all():
        first = int(np.argmin(alone))
        raise InputError(
            f"{owner} uses the normal, and {int((~alone).sum())} of its {len(x)} points have none "
            f"that is known, the first of them number {first}: {x[first].tolist()}. Give a pair "
            f"points=(x, normals), or leave out points inside and on edges."
        )
    return normals
