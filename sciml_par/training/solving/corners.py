"""The corners and holes of a domain, and what solutions are made of there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import bisect

from sciml_par.networks.propagation.corner_functions import CornerFunction
from sciml_par.networks.propagation.singular_function import SingularFunction
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.product import Product
from sciml_par.problems.problem import Problem
from sciml_par.training.solving.holes import Hole, ends_of, holes_of
from sciml_par.training.solving.initial_layers import FAR, InitialLayer, unit_points
from sciml_par.training.solving.principal_part import Principal, has_plain_sides

Array = npt.NDArray[np.float64]

_RADIUS, _DIRECTIONS, _ALONG, _ROUNDING = 1e-4, 20_000, 400, 1e-14
"""Of an ellipse around a corner, relative to the domain, at whose points its angle is seen; points
of the ray across which the functions of a corner jump; and the rounding of an angle, in radians."""
_SINGULAR = 1e-8
"""The least ratio of the coefficients of second derivatives along principal axes."""
_SAME, _MOST = 1e-4, 64
"""By which a power is a whole number, and an angle is π; and powers at a corner."""
_LEAST, _PER_DEGREE, _HIGHEST = 1.0, 0.2, 5.0
"""The highest power of r of the functions of corners: with polynomials of degree 0, more of it for
each degree, and at most."""


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

    @property
    def inward(self) -> bool:
        """Whether the domain goes on behind it."""
        return self.angle > math.pi

    def functions(self, degree: int, *, mixed: bool) -> list[CornerFunction]:
        """Return those that are not smooth, beside polynomials of a degree (local).

        mixed : whether the powers between a value and a flux are among them.
        """
        highest = min(_LEAST + _PER_DEGREE * degree, _HIGHEST)
        powers = math.pi / self.angle * np.arange(1, _MOST) * (0.5 if mixed else 1.0)
        whole = np.abs(powers - np.round(powers)) < _SAME
        powers = np.where(whole, np.round(powers), powers)
        # In the plane r log r does not occur where data do not jump.
        kept = (powers <= highest + _SAME) & ~(whole & (powers < 2))
        w = np.exp(-1j * self.direction) * (self.matrix[0] + 1j * self.matrix[1])
        at, real, imaginary = (tuple(v.tolist()) for v in (self.at, w.real, w.imag))
        corner: Any = partial(CornerFunction, at, real, imaginary, reach=self.reach)
        pairs = zip(powers[kept].tolist(), whole[kept].tolist(), strict=True)
        return [corner(power, log, int(highest - power + _SAME)) for power, log in pairs]

    def inside(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return interior points around it, [n, d], and shares of the volume (local).

        They are denser near to the corner as 1/r².
        """
        unit, others = self._unit(domain, count, seed)
        r = np.exp(FAR * unit[:, 0])
        x, _ = self._at(r, self.angle * (unit[:, 1] - 0.5))
        x, sides = np.hstack([x, others]), (domain.upper - domain.lower)[:2]
        areas = -(r**2) * FAR * self.angle / count / abs(np.linalg.det(self.matrix))
        inside = domain._within(x)
        return x[inside], areas[inside] / np.prod(sides)

    def on_sides(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return points on the lines of both sides, [n, d], normals, and rough shares (local).

        They are denser near to the corner as 1/r.
        """
        unit, others = self._unit(domain, count, seed)
        r = np.exp(FAR * unit[:, 0])
        sign = np.where(np.arange(count) % 2, 1.0, -1.0)
        x, normals = self._at(r, sign * self.angle / 2)
        normals = np.hstack([sign[:, None] * normals, np.zeros_like(others)])
        return np.hstack([x, others]), normals, -r * FAR / 2 / count

    def _unit(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return points of the unit cube, and their places along axes beside the plane."""
        unit = unit_points(domain, count, seed)
        return unit, (domain.lower + (domain.upper - domain.lower) * unit)[:, 2:]

    def _at(self, r: Array, turned: Array) -> tuple[Array, Array]:
        """Return points by their distance and angle, and normals towards larger angles, [n, 2]."""
        angle = self.direction + turned
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) @ self.matrix
        x = self.at + r[:, None] * np.linalg.solve(self.matrix, ahead.T).T
        return x, across / np.linalg.norm(across, axis=1, keepdims=True)


def corners_and_holes(problem: Problem, principal: Principal) -> list[Corner | Hole]:
    """Return those of a plane domain, or of one times an interval or time (local).

    No corner whose angle cannot be seen, and none where the equation is not elliptic.
    """
    plane: Any = problem.domain
    plane = plane._space if isinstance(plane, Product) else plane
    if isinstance(plane, Box) and has_time(plane) and plane.dimension == 3:
        plane = Box(plane.lower[:2], plane.upper[:2])
    flat = plane.dimension == 2 and not has_time(plane) and not isinstance(plane, Product)
    if not flat or not has_plain_sides(problem):
        return []
    at = plane.corners() if hasattr(plane, "corners") else ends_of(plane)
    inward = plane.sample(1, seed=0)
    beside = np.vstack([at + _RADIUS * (inward - at), inward])
    others = np.tile((problem.domain.lower + problem.domain.upper)[2:] / 2, (len(beside), 1))
    of = [second[:, :2, :2] for second, _ in principal(np.hstack([beside, others]))]
    # Components that second derivatives couple, as displacements, have other powers at corners.
    apart = bool(of) and (problem.network_outputs == 1 or _apart(problem.network_outputs, of))
    pairs = zip(at, of[0], strict=False) if apart else ()
    corners = [_corner(plane, x, a) for x, a in pairs if np.isfinite(a).all()]
    unit = _isotropic(of[0][-1]) if apart else np.eye(2)
    holes = [] if unit is None else holes_of(plane, unit)
    return [*(corner for corner in corners if corner is not None), *holes]


def _apart(outputs: int, of: Sequence[Array]) -> bool:
    """Return whether each component has an equation with second derivatives alike, its own."""
    shapes = [a / np.linalg.norm(a, axis=(1, 2), keepdims=True) for a in of]
    alike = (np.allclose(each, s * shapes[0]) for each in shapes[1:] for s in (1, -1))
    return len(of) == outputs and sum(alike) == outputs - 1


def _isotropic(a: Array) -> Array | None:
    """Return B with B a Bᵀ proportional to 1, [2, 2]; None if a is not elliptic."""
    if not np.isfinite(a).all():
        return None
    squares, axes = np.linalg.eigh(a * np.sign(np.trace(a)))
    return axes.T / np.sqrt(squares)[:, None] if squares[0] > _SINGULAR * squares[1] else None


def functions_of(
    corners: Sequence[Corner | Hole | InitialLayer], degree: int, problem: Problem
) -> list[SingularFunction]:
    """Return the functions of corners and others for polynomials of a degree (local)."""
    # Between a given value and a given flux there are further powers.
    kinds = {isinstance(each, Dirichlet) for each in problem.conditions if each.on_boundary}
    mixed = len(kinds) > 1
    return [each for corner in corners for each in corner.functions(degree, mixed=mixed)]


def _corner(plane: Any, at: Array, a: Array) -> Corner | None:
    """Return a corner by the points of a small ellipse that are in the domain."""
    unit = _isotropic(a)
    if unit is None:
        return None
    unit /= np.linalg.norm((ends_of(plane) - at) @ unit.T, axis=1).max()

    def inside(angles: Any) -> npt.NDArray[np.bool_]:
        z = _RADIUS * np.stack([np.cos(angles), np.sin(angles)])
        return np.asarray(plane._within(at + np.linalg.solve(unit, z).T))

    step = 2 * math.pi / _DIRECTIONS
    angles = (np.arange(_DIRECTIONS) + 0.5) * step
    within = inside(angles)
    first, last = (np.flatnonzero(within & ~np.roll(within, k)) for k in (1, -1))
    if len(first) != 1:
        return None
    pairs = (angles[first[0]], -step), (angles[last[0]], step)
    within_by = lambda angle: inside(np.array([angle]))[0] - 0.5  # noqa: E731
    ends = [bisect(within_by, a, a + turn, xtol=_ROUNDING) for a, turn in pairs]
    angle = (ends[1] - ends[0]) % (2 * math.pi)
    direction = ends[0] + angle / 2
    r = np.geomspace(_RADIUS, 1, _ALONG)
    ray = -r * np.array([[math.cos(direction)], [math.sin(direction)]])
    if abs(angle - math.pi) < _SAME:
        return None
    again = np.append(r[plane._within(at + np.linalg.solve(unit, ray).T)], math.inf)
    return Corner(at, unit, direction, angle, float(again[0]))
