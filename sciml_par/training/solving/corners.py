"""The corners of a domain, and what solutions are made of there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.corner_functions import CornerFunction
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.product import Product
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]

_RADIUS, _DIRECTIONS, _ALONG, _HALVINGS = 1e-4, 720, 400, 40
"""Of a circle around a corner, relative to the domain, at whose points its angle is seen; and
points of the ray across which the functions of a corner jump."""
_SAME, _MOST = 1e-4, 64
"""By which a power is a whole number, and an angle is π; and powers at a corner."""
_HIGHEST = 5.0
"""Power of r of the functions of corners."""
_CLOSEST = 1e-5
"""Of the domain's size, the distance of the points that are closest to a corner."""


@dataclass(frozen=True)
class Corner:
    """A corner of a plane domain.

    Attributes
    ----------
    at : its coordinates.
    direction : of the ray into the domain that halves its angle, radians from the first axis.
    angle : of the domain, radians.
    size : the longest side of the box around the domain.
    reach : how far away the ray in the other direction meets the domain again.
    """

    at: tuple[float, float]
    direction: float
    angle: float
    size: float
    reach: float

    def functions(self, highest: float, *, mixed: bool) -> list[CornerFunction]:
        """Return those of powers of r up to the highest that are not smooth (local).

        mixed : whether the powers between a value and a flux are among them.
        """
        step, found = math.pi / self.angle * (0.5 if mixed else 1.0), []
        for power in (step * k for k in range(1, _MOST)):
            whole = abs(power - round(power)) < _SAME
            # In the plane r log r does not occur beside data without a jump.
            if power > highest + _SAME or whole and power < 2 - _SAME:
                continue
            power = float(round(power)) if whole else power
            degree = int(highest - power + _SAME)
            of = self.at, self.direction, self.size, power, whole, degree, self.reach
            found.append(CornerFunction(*of))
        return found

    def inside(self, unit: Array) -> tuple[Array, Array]:
        """Return points around it by points of the unit square, [n, 2], and areas, [n] (local).

        They are denser near to the corner as 1/r².
        """
        r, far = self._distances(unit[:, 0])
        x, _ = self._at(r, self.angle * (unit[:, 1] - 0.5))
        return x, r**2 * far * self.angle / len(unit)

    def on_sides(self, unit: Array) -> tuple[Array, Array, Array]:
        """Return points of both sides by numbers from 0 to 1, [n], normals, and lengths (local).

        They are denser near to the corner as 1/r.
        """
        r, far = self._distances(unit)
        sign = np.where(np.arange(len(unit)) % 2, 1.0, -1.0)
        x, normals = self._at(r, sign * self.angle / 2)
        return x, sign[:, None] * normals, 2 * r * far / len(unit)

    def _distances(self, unit: Array) -> tuple[Array, float]:
        far = -math.log(_CLOSEST)
        return self.size * np.exp(-far * unit), far

    def _at(self, r: Array, turned: Array) -> tuple[Array, Array]:
        """Return points by their distance and angle, and directions of growing angles, [n, 2]."""
        angle = self.direction + turned
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
        return np.array(self.at) + r[:, None] * ahead, across


def corners_of(problem: Problem) -> list[Corner]:
    """Return the corners of a plane domain, or of one times an interval (local).

    None of those whose angle cannot be seen.
    """
    domain: Any = problem.domain
    plane = domain._space if isinstance(domain, Product) else domain
    if isinstance(plane, Box) and has_time(plane) and plane.dimension == 3:
        plane = Box(plane.lower[:2], plane.upper[:2])
    if plane.dimension != 2 or problem.ansatz is not None or problem.scaled_box is not None:
        return []
    if isinstance(plane, Product):
        return []
    if hasattr(plane, "corners"):
        found = plane.corners()
    else:
        (a, c), (b, d) = plane.lower, plane.upper
        found = np.array([[a, c], [b, c], [b, d], [a, d]])
    size = float(np.max(plane.upper - plane.lower))
    corners = [_corner(plane, at, size) for at in found]
    return [corner for corner in corners if corner is not None]


def functions_of(corners: Sequence[Corner], degree: int, problem: Problem) -> list[CornerFunction]:
    """Return the functions of corners beside polynomials of a degree (local)."""
    # Between a given value and a given flux there are further powers.
    kinds = {isinstance(each, Dirichlet) for each in problem.conditions if each.on_boundary}
    highest, mixed = min(1 + degree / 5, _HIGHEST), len(kinds) > 1
    return [each for corner in corners for each in corner.functions(highest, mixed=mixed)]


def _corner(plane: Any, at: Array, size: float) -> Corner | None:
    """Return a corner by the points of a small circle that are in the domain."""

    def inside(angles: Array) -> npt.NDArray[np.bool_]:
        x = at + _RADIUS * size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return np.asarray(plane._within(x))

    step = 2 * math.pi / _DIRECTIONS
    angles = (np.arange(_DIRECTIONS) + 0.5) * step
    within = inside(angles)
    first, last = (np.flatnonzero(within & ~np.roll(within, k)) for k in (1, -1))
    if len(first) != 1:
        return None
    ends = []
    for place, sign in ((angles[first[0]], -1), (angles[last[0]], 1)):
        near, far = 0.0, step
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            if inside(np.array([place + sign * middle]))[0]:
                near = middle
            else:
                far = middle
        ends.append(place + sign * near)
    angle = (ends[1] - ends[0]) % (2 * math.pi)
    direction = ends[0] + angle / 2
    r = np.geomspace(_RADIUS, 2, _ALONG)[:, None] * size
    behind = at - r * np.array([math.cos(direction), math.sin(direction)])
    if abs(angle - math.pi) < _SAME:
        return None
    again = np.append(r[plane._within(behind)], math.inf)
    return Corner((float(at[0]), float(at[1])), direction, angle, size, float(again[0]))
