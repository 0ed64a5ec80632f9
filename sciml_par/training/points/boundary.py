"""The points of the whole boundary, from which every condition takes those where it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.given_points import points_within
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.points import Points

LEAST = 16
"""Points of a condition, where their number is left open."""

FloatArray = npt.NDArray[np.float64]
Given = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class BoundaryPoints:
    """The points of the boundary and outward unit normals, draw for draw.

    Attributes
    ----------
    domain : whose boundary it is.
    number : how many points it has, or the points themselves.
    initial : the same for the face on which the last coordinate is least; None where it belongs to
        the others.
    method, initial_method : by which they are chosen.
    derived : those that were given without normals.
    boxes : in which the points are drawn.
    """

    domain: Domain
    number: int | Given
    initial: int | Given | None
    method: str
    initial_method: str
    derived: tuple[Given, ...] = ()
    boxes: InBoxes | None = None

    @classmethod
    def of(cls, domain: Domain, points: Points, interior: int) -> BoundaryPoints:
        """Return the boundary that `points` ask for, where equations have `interior` points."""
        number, initial = points.boundary, points.initial
        derived = []
        if number is None:
            number = default_number(domain, interior)
        elif isinstance(number, tuple):
            number = as_boundary_points(number, domain, "points of the boundary")
            derived += [number] if points.boundary[1] is None else []
        if isinstance(initial, tuple):
            initial = as_boundary_points(initial, domain, "initial points")
            _check_initial(initial[0], domain)
            derived += [initial] if points.initial[1] is None else []
        methods = points.method_of("boundary", domain), points.method_of("initial", domain)
        return cls(domain, number, initial, *methods, tuple(derived), points.boxes)

    @property
    def random(self) -> bool:
        """Whether another draw has other points."""
        if self.domain.dimension == 1:
            return False
        return (self.method != GRID and isinstance(self.number, int)) or (
            self.initial_method != GRID and isinstance(self.initial, int)
        )

    def draw(self, rng: np.random.Generator) -> Given:
        """Return points x and outward unit normals, [n, d] each."""
        parts = [self._most(rng)]
        if isinstance(self.initial, int):
            parts.append(self.domain.initial(self.initial, method=self.initial_method, rng=rng))
        elif self.initial is not None:
            parts.append(self.initial)
        x, normals = (np.concatenate(each) for each in zip(*parts, strict=True))
        return x, normals

    def check(self, condition: Condition, name: str) -> None:
        """Check that points which were given without normals do not lack those of a condition."""
        for x, normals in self.derived:
            chosen = condition.holds_at(x, self.domain)
            given = x[chosen], normals[chosen]
            check_normals(condition, given, self.domain, f"points of the condition {name!r}")

    def _most(self, rng: np.random.Generator) -> Given:
        if isinstance(self.number, tuple):
            return self.number
        if self.boxes is not None:
            return self.boxes.boundary(self.number, rng, with_initial=self.initial is None)
        return self.domain.boundary(
            self.number, method=self.method, rng=rng, with_initial=self.initial is None
        )


def default_number(domain: Domain, interior: int) -> int:
    """Return how many points a boundary has by default: as dense as inside, 16 on a box's face."""
    d = domain.dimension
    least = 2 * d * (LEAST if d > 1 and isinstance(domain, Box) else 1)
    return max(least, round(domain.number_on_boundary(interior)))


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
        return x, _as_normals(normals, array, domain, what)
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


def _as_normals(normals: FloatArray, x: FloatArray, domain: Domain, what: str) -> FloatArray:
    n, d = len(x), domain.dimension
    found = normals[:, None] if normals.ndim == 1 and d == 1 else normals
    if found.shape != (n, d):
        raise InputError(
            f"train: the normals of {what} must have the shape [{n}, {d}] of the points; got "
            f"{normals.shape}."
        )
    return found
