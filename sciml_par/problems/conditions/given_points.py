"""Points and values that users give as arrays, for conditions with separate points."""

from __future__ import annotations

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.domain import Domain


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
