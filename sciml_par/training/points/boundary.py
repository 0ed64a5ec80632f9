"""The points of the whole boundary, from which every condition takes those where it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.selection import points_within
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.training.points.points import Points

LEAST = 16
"""Points of a condition, where their number is left open."""

FloatArray = npt.NDArray[np.float64]
Given = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points, among which are those of a condition.

    Attributes
    ----------
    draw : random numbers -> points x and outward unit normals, [n, d] each.
    random : whether another draw has other points.
    number : how many points the boundary has, about.
    given : whether the user gave them.
    derived : those that were given without normals.
    """

    draw: Callable[[np.random.Generator], Given]
    random: bool
    number: int = 0
    given: bool = False
    derived: tuple[Given, ...] = ()


def boundary_of(domain: Domain, points: Points, interior: int) -> Candidates:
    """Return the boundary that `points` ask for, where equations have `interior` points."""
    derived = []

    def read(value: int | tuple[FloatArray, FloatArray | None] | None, what: str) -> Any:
        if not isinstance(value, tuple):
            return value
        found = as_boundary_points(value, domain, what)
        if value[1] is None:
            derived.append(found)
        return found

    d, number = domain.dimension, read(points.boundary, "points of the boundary")
    if number is None:  # as dense as inside, and enough on each face of a box
        least = 2 * d * (LEAST if d > 1 and isinstance(domain, Box) else 1)
        number = max(least, round(domain.number_on_boundary(interior)))
    initial = read(points.initial, "initial points")
    if isinstance(initial, tuple):
        _check_initial(initial[0], domain)
    method, of_initial = points.method_of("boundary", domain), points.method_of("initial", domain)

    def draw(rng: np.random.Generator) -> Given:
        if isinstance(number, tuple):
            parts = [number]
        elif points.boxes is not None:
            parts = [points.boxes.boundary(number, rng, with_initial=initial is None)]
        else:
            parts = [domain.boundary(number, method=method, rng=rng, with_initial=initial is None)]
        if isinstance(initial, int):
            parts.append(domain.initial(initial, method=of_initial, rng=rng))
        elif initial is not None:
            parts.append(initial)
        x, normals = (np.concatenate(each) for each in zip(*parts, strict=True))
        return x, normals

    drawn = (
        method != GRID and isinstance(number, int),
        of_initial != GRID and isinstance(initial, int),
    )
    given = isinstance(number, tuple)
    count = len(number[0]) if isinstance(number, tuple) else number
    return Candidates(draw, d > 1 and any(drawn), count, given, tuple(derived))


def _check_initial(x: FloatArray, domain: Domain) -> None:
    if not isinstance(domain, Box) and INITIAL not in domain.faces:
        raise InputError(
            f"train: initial points are those of a domain with a time, such as "
            f"domain * Time(0, 1); got some for {domain}."
        )
    elsewhere = domain.snap(x)[:, -1] != domain.lower[-1]
    if elsewhere.any():
        first = int(np.argmax(elsewhere))
        raise InputError(
            f"train: initial points must have the least value {domain.lower[-1]} of the last "
            f"coordinate; {int(elsewhere.sum())} of {len(x)} have not, the first of them number "
            f"{first}: {x[first]}."
        )


def check_normals(condition: Condition, given: Given, domain: Domain, what: str) -> None:
    """Refuse points on edges where a condition uses the normal."""
    x, normals = given
    on_edges = int(np.count_nonzero(domain.on_edges(x)))
    if on_edges and condition.needs_normals:
        raise InputError(
            f"train: {on_edges} of {len(x)} {what} lie on edges, where two faces meet and "
            f"{type(condition).__name__} has no normal. Leave them out, or give a pair "
            f"(x, normals)."
        )
    check_known(condition, normals, what)


def check_known(condition: Condition, normals: FloatArray, what: str) -> None:
    """Refuse points without a normal where a condition uses it.

    Only a cloud of points may have such.
    """
    unknown = int(np.count_nonzero(~normals.any(axis=1)))
    if unknown and condition.needs_normals:
        raise InputError(
            f"train: no normal is known at {unknown} of {len(normals)} {what}, and "
            f"{type(condition).__name__} needs one. Make the domain as PointCloud(x, boundary=..., "
            f"normals=...)."
        )


def as_boundary_points(
    value: tuple[FloatArray, FloatArray | None], domain: Domain, what: str
) -> tuple[FloatArray, FloatArray]:
    """Return points of the boundary with outward unit normals, [n, d] each.

    Normals that are not given are those of the faces; on an edge the mean direction, which suits
    conditions that do not use it.
    """
    array, normals = value
    x = points_within(array, domain, f"train: {what}")
    if normals is not None:
        n, d = len(array), domain.dimension
        found = normals[:, None] if normals.ndim == 1 and d == 1 else normals
        if found.shape != (n, d):
            raise InputError(
                f"train: the normals of {what} must have the shape [{n}, {d}] of the points; got "
                f"{normals.shape}."
            )
        return x, found
    x = domain.snap(x)
    normals = domain.outward_normals(x)
    inside = ~domain.on_boundary(x)
    if inside.any():
        first = int(np.argmax(inside))
        raise InputError(
            f"train: {int(inside.sum())} of {len(x)} {what} do not lie on the boundary of "
            f"{domain}, the first of them number {first}: {x[first]}. For points inside, give a "
            f"pair (x, normals)."
        )
    return x, normals
