"""The corners of a domain, and what solutions are made of there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from sciml_par.networks.propagation.corner_functions import CornerFunction
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.product import Product
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]

_RADIUS, _DIRECTIONS, _ALONG, _HALVINGS = 1e-4, 720, 400, 40
"""Of an ellipse around a corner, relative to the domain, at whose points its angle is seen; and
points of the ray across which the functions of a corner jump."""
_SINGULAR = 1e-8
"""The least ratio of the coefficients of second derivatives along principal axes."""
_SAME, _MOST = 1e-4, 64
"""By which a power is a whole number, and an angle is π; and powers at a corner."""
_HIGHEST = 5.0
"""Power of r of the functions of corners."""
_CLOSEST = 1e-5
"""Of the domain's size, the distance of the points that are closest to a corner."""


@dataclass(frozen=True)
class Corner:
    """A corner of a plane domain, in whose coordinates z = B (x − c) the equation is Δu = f.

    Attributes
    ----------
    at : c.
    matrix : B, by which the domain becomes about as large as 1: [2, 2].
    direction : of the ray z into the domain that halves its angle, radians from the first axis.
    angle : of the domain there, radians.
    reach : |z| at which the ray in the other direction meets the domain again.
    """

    at: Array
    matrix: Array
    direction: float
    angle: float
    reach: float

    def functions(self, highest: float, *, mixed: bool) -> list[CornerFunction]:
        """Return those of powers of r up to the highest that are not smooth (local).

        mixed : whether the powers between a value and a flux are among them.
        """
        step, found = math.pi / self.angle * (0.5 if mixed else 1.0), []
        w = np.exp(-1j * self.direction) * (self.matrix[0] + 1j * self.matrix[1])
        at, real, imaginary = (tuple(v.tolist()) for v in (self.at, w.real, w.imag))
        for power in (step * k for k in range(1, _MOST)):
            whole = abs(power - round(power)) < _SAME
            # In the plane r log r does not occur beside data without a jump.
            if power > highest + _SAME or whole and power < 2 - _SAME:
                continue
            power = float(round(power)) if whole else power
            degree = int(highest - power + _SAME)
            of = at, real, imaginary, power, whole, degree, self.reach
            found.append(CornerFunction(*of))
        return found

    def inside(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return interior points around it, [n, d], and shares of the volume (local).

        They are denser near to the corner as 1/r².
        """
        unit, others = self._unit(domain, count, seed)
        r, far = self._distances(unit[:, 0])
        x, _ = self._at(r, self.angle * (unit[:, 1] - 0.5))
        x, sides = np.hstack([x, others]), (domain.upper - domain.lower)[:2]
        shares = r**2 * far * self.angle / count / abs(np.linalg.det(self.matrix)) / np.prod(sides)
        inside = domain._within(x)
        return x[inside], shares[inside]

    def on_sides(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return points on the lines of both sides, [n, d], normals, and rough shares (local).

        They are denser near to the corner as 1/r.
        """
        unit, others = self._unit(domain, count, seed)
        r, far = self._distances(unit[:, 0])
        sign = np.where(np.arange(count) % 2, 1.0, -1.0)
        x, normals = self._at(r, sign * self.angle / 2)
        normals = np.hstack([sign[:, None] * normals, np.zeros_like(others)])
        return np.hstack([x, others]), normals, r * far / 2 / count

    def _unit(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return points of the unit cube, and their places along axes beside the plane."""
        rng = np.random.default_rng((*seed, *self.at.view(np.uint64).tolist()))
        unit = qmc.Sobol(domain.dimension, rng=rng).random_base2((count - 1).bit_length())[:count]
        return unit, (domain.lower + (domain.upper - domain.lower) * unit)[:, 2:]

    def _distances(self, unit: Array) -> tuple[Array, float]:
        far = -math.log(_CLOSEST)
        return np.exp(-far * unit), far

    def _at(self, r: Array, turned: Array) -> tuple[Array, Array]:
        """Return points by their distance and angle, and normals towards larger angles, [n, 2]."""
        angle = self.direction + turned
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) @ self.matrix
        x = self.at + r[:, None] * np.linalg.solve(self.matrix, ahead.T).T
        return x, across / np.linalg.norm(across, axis=1, keepdims=True)


def plane_of(domain: Any) -> Any:
    """Return the plane domain that a domain is, or is the product of with an interval; or None."""
    plane = domain._space if isinstance(domain, Product) else domain
    if isinstance(plane, Box) and has_time(plane) and plane.dimension == 3:
        plane = Box(plane.lower[:2], plane.upper[:2])
    flat = plane.dimension == 2 and not has_time(plane) and not isinstance(plane, Product)
    return plane if flat else None


def corners_of(problem: Problem, leading: Callable[[Array], Array]) -> list[Corner]:
    """Return the corners of a plane domain, or of one times an interval (local).

    None of those whose angle cannot be seen, or where the equation is not elliptic.

    leading : x -> the coefficients a of second derivatives in the plane, [n, 2] -> [n, 2, 2].
    """
    plane = plane_of(problem.domain)
    if plane is None or problem.ansatz is not None or problem.scaled_box is not None:
        return []
    if hasattr(plane, "corners"):
        found = plane.corners()
    else:
        found = np.array([[x, y] for x, y in zip(*_box(plane), strict=True)])
    if not len(found):
        return []
    inward = np.array([plane.sample(1, seed=0)[0]] * len(found))
    pairs = zip(found, leading(found + _RADIUS * (inward - found)), strict=True)
    corners = [_corner(plane, at, a) for at, a in pairs]
    return [corner for corner in corners if corner is not None]


def _box(plane: Any) -> Any:
    (a, c), (b, d) = plane.lower, plane.upper
    return (a, b, b, a), (c, c, d, d)


def functions_of(corners: Sequence[Corner], degree: int, problem: Problem) -> list[CornerFunction]:
    """Return the functions of corners beside polynomials of a degree (local)."""
    # Between a given value and a given flux there are further powers.
    kinds = {isinstance(each, Dirichlet) for each in problem.conditions if each.on_boundary}
    highest, mixed = min(1 + degree / 5, _HIGHEST), len(kinds) > 1
    return [each for corner in corners for each in corner.functions(highest, mixed=mixed)]


def _corner(plane: Any, at: Array, a: Array) -> Corner | None:
    """Return a corner by the points of a small ellipse that are in the domain."""
    squares, axes = np.linalg.eigh(a * np.sign(np.trace(a)))
    if not squares[0] > _SINGULAR * squares[1]:
        return None
    unit = axes.T / np.sqrt(squares)[:, None]
    sides = np.array(np.meshgrid(*zip(plane.lower, plane.upper, strict=True))).reshape(2, -1)
    unit /= np.linalg.norm(unit @ (sides - at[:, None]), axis=0).max()

    def inside(angles: Any) -> npt.NDArray[np.bool_]:
        z = _RADIUS * np.stack([np.cos(angles), np.sin(angles)])
        return np.asarray(plane._within(at + np.linalg.solve(unit, z).T))

    step = 2 * math.pi / _DIRECTIONS
    angles = (np.arange(_DIRECTIONS) + 0.5) * step
    within = inside(angles)
    first, last = (np.flatnonzero(within & ~np.roll(within, k)) for k in (1, -1))
    if len(first) != 1:
        return None
    ends = []
    for place, sign in ((float(angles[first[0]]), -1), (float(angles[last[0]]), 1)):
        near, far = 0.0, step
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            near, far = (
                (middle, far) if inside(np.array([place + sign * middle]))[0] else (near, middle)
            )
        ends.append(place + sign * near)
    angle = (ends[1] - ends[0]) % (2 * math.pi)
    direction = ends[0] + angle / 2
    r = np.geomspace(_RADIUS, 1, _ALONG)
    ray = -r * np.array([[math.cos(direction)], [math.sin(direction)]])
    if abs(angle - math.pi) < _SAME:
        return None
    again = np.append(r[plane._within(at + np.linalg.solve(unit, ray).T)], math.inf)
    return Corner(at, unit, direction, angle, float(again[0]))
