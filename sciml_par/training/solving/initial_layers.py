"""Corners of space and time, from which layers grow where data contradict each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from sciml_par.networks.propagation.layer_functions import LayerFunction
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.conditions.in_time import on_initial_face
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.problem import Problem
from sciml_par.training.solving.principal_part import Principal, has_plain_sides

Array = npt.NDArray[np.float64]
FAR, _THICK = math.log(1e-5), 6.0
"""Of the distance of the points that are closest to the corner, relative to the domain or to so
many times the width that a layer has at the end."""
_OTHERS = 8
"""Points at which it is seen whether the diffusivity varies."""
_PER_DEGREE, _MOST = (0.4, 0.2), 8
"""Powers of s and √τ but the first by which functions of a layer are multiplied, for each degree on
a line and in a plane, where they are also multiplied by all powers along the side; and at most."""


@dataclass(frozen=True)
class InitialLayer:
    """A side at the initial time, from which u spreads as of ∂u/∂τ = ∂²u/∂s² + ….

    Attributes
    ----------
    at : a point on the side, and the initial time: [d].
    normal : into the domain, in the units of x, [d − 1].
    width : of the domain in this direction.
    duration : T = width²/κ, the time in which a layer of the diffusivity κ is as wide.
    until : the last time.
    products : whether functions of layers are multiplied with each other, too.
    changes : the number of functions by which they change with T; see `LayerFunction`.
    """

    at: Array
    normal: Array
    width: float
    duration: float
    until: float
    products: bool
    changes: int
    inward, reach = False, math.inf

    def equals(self, other: InitialLayer) -> bool:
        """Return whether it has the same side and, but for rounding, the same diffusivity."""
        same = np.array_equal(self.at, other.at) and np.array_equal(self.normal, other.normal)
        return same and math.isclose(self.duration, other.duration)

    def functions(self, degree: int, *, mixed: bool) -> list[LayerFunction]:
        """Return those beside polynomials of a degree (local)."""
        across = tuple((self.normal / self.width).tolist())
        each = _PER_DEGREE[len(self.normal) > 1]
        at, powers = tuple(self.at.tolist()), min(1 + int(each * degree), _MOST)
        of = self.until, self.products, self.changes
        return [LayerFunction(at, across, self.duration, powers, *of)]

    def _distances(self, domain: Any, unit: Array) -> Array:
        """Return distances r of points from the corner, of s and √τ, by numbers of [0, 1]."""
        end = (domain.upper[-1] - self.at[-1]) / self.duration
        return np.asarray(min(_THICK * math.sqrt(end), 1.0) * np.exp(FAR * unit[:, 0]))

    def inside(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return interior points, [n, d], and shares of the volume (local).

        They are denser near to the side and to the initial time.
        """
        unit = unit_points(domain, count, seed)
        r, angle = self._distances(domain, unit), np.pi / 2 * unit[:, -1]
        sin, size = np.sin(angle), domain.upper - domain.lower
        x = self._at(domain, unit, r * np.cos(angle), r * sin)
        # ds dτ = 2 √τ ds d√τ = 2 √τ r dr dφ
        areas = -np.pi * FAR * r**3 * sin / count
        shares = areas * self.duration / size[-1] * self.width / (np.abs(self.normal) @ size[:-1])
        inside = domain._within(x)
        return x[inside], shares[inside]

    def on_sides(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return points on the side and at the initial time, [n, d], normals, and rough shares."""
        unit = unit_points(domain, count, seed)
        r, at_begin = self._distances(domain, unit), np.arange(count) % 2 == 0
        x = self._at(domain, unit, np.where(at_begin, r, 0.0), np.where(at_begin, 0.0, r))
        time = np.zeros(len(self.at))
        time[-1] = -1.0
        normals = np.where(at_begin[:, None], time, np.append(-self.normal, 0.0))
        return x, normals, np.where(at_begin, 0.5, r) * r * -FAR / count

    def _at(self, domain: Any, unit: Array, s: Array, root: Array) -> Array:
        """Return points by s and √τ, along the side by numbers of the unit cube."""
        x = domain.lower + (domain.upper - domain.lower) * unit
        along = x[:, :-1] - self.at[:-1]
        across = self.width * s - along @ self.normal
        x[:, :-1] += across[:, None] * self.normal
        x[:, -1] = self.at[-1] + self.duration * root**2
        return x


def unit_points(domain: Any, count: int, seed: Sequence[int]) -> Array:
    """Return Sobol's points of the unit cube, [count, d] (local)."""
    sobol = qmc.Sobol(domain.dimension, rng=np.random.default_rng(seed))
    return np.asarray(sobol.random_base2((count - 1).bit_length())[:count])


def initial_layers_of(
    problem: Problem, principal: Principal, *, products: bool
) -> list[InitialLayer]:
    """Return those beside the sides of a box over time where the equation is parabolic (local)."""
    domain, plain = problem.domain, has_plain_sides(problem)
    if not (isinstance(domain, Box) and has_time(domain) and plain):
        return []
    if not any(isinstance(c, Initial) or on_initial_face(c, domain) for c in problem.conditions):
        return []
    lower, upper, d = domain.lower, domain.upper, domain.dimension
    sides = [(axis, end) for axis in range(d - 1) for end in (lower[axis], upper[axis])]
    at = np.tile((lower + upper) / 2, (len(sides), 1))
    at[:, -1] = lower[-1]
    for row, (axis, end) in zip(at, sides, strict=True):
        row[axis] = end
    found: list[InitialLayer] = []
    other = domain.sample(_OTHERS, seed=0)
    for second, first in principal(np.concatenate([at, other])):
        ratios = second[:, range(d - 1), range(d - 1)] / first[:, -1:]
        for k, (x, (axis, end)) in enumerate(zip(at, sides, strict=True)):
            a, b, width = second[k, axis, axis], first[k, -1], float(upper[axis] - lower[axis])
            varies = not np.allclose(ratios[len(at) :, axis], ratios[k, axis])
            # Not of waves or what is anti-diffusive, nor where terms are infinite, as on an axis.
            if second[k, -1].any() or not 0 < -a * b < math.inf:
                continue
            normal = np.eye(d - 1)[axis] * (1.0 if end == lower[axis] else -1.0)
            duration = float(-(width**2) * b / a)
            changes = 3 if varies else 1 if problem.unknowns else 0
            of = width, duration, upper[-1], products, changes
            layer = InitialLayer(x, normal, *of)
            found += [] if any(layer.equals(other) for other in found) else [layer]
    return found
