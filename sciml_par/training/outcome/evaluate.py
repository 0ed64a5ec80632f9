"""The prediction of a trained network on a grid, with the exact solution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.assembly.at_points import AtPoints
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.networks.keras.network import Network
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.space_time import SpaceTime
from sciml_par.problems.domains.surfaces.sampling import MOST_OF_A_GRID
from sciml_par.problems.fields.field import Field
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import numbers_of
from sciml_par.results.unknown_values import UnknownValues
from sciml_par.training.loss.objective import field_of
from sciml_par.training.loss.parameter_layout import ParameterLayout

FloatArray = npt.NDArray[np.float64]

_DRAWN = 2  # dimensions in which fields are drawn over triangles
_NUMBERS, _MANY = {1: 201, 2: 2601}, 4096  # points, where none is said
_FEWEST = 16  # points
_BEYOND = 1e-3  # of the spacing of the grid
_APART = 0.75


def prediction_of(
    problem: Problem, x: FloatArray, inside: npt.NDArray[np.bool_], values: FloatArray
) -> Prediction:
    """Return values of u at `points_of` a domain, x: [k, d], with the exact solution if known.

    Other points are marked as outside, so that no figure draws over a hole.
    """
    u_exact = np.full_like(values, np.nan)
    if problem.exact is not None:
        # It need not be known, or finite, anywhere else.
        u_exact[inside] = problem.exact(x[inside])
        u_exact[~problem.means(x)] = np.nan
    return Prediction(
        "prediction",
        x,
        values,
        u_exact,
        inside=inside,
        coordinates=problem.domain.names,
        fields=problem.output_names,
    )


def points_of(domain: Domain, number: int | None) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the points of a prediction, x: [k, d], and which of them lie in the domain.

    They are about `number` equispaced points; in more than three dimensions they are scattered. In
    the plane, a grid covers the box around the domain. Points of the boundary, as dense as the
    grid, replace the grid's points close to them. Others lie just outside, so that the triangles of
    figures end at the boundary. Over a plane and time there are as many at each time.
    """
    from scipy.spatial import KDTree

    n = _NUMBERS.get(domain.dimension, _MANY) if number is None else number
    if domain.dimension > MOST_OF_A_GRID and math.isfinite(domain.volume):
        x = domain.sample(n, seed=0, method="sobol")
        return x, np.ones(len(x), np.bool_)
    if isinstance(domain, SpaceTime) and domain.space.dimension == _DRAWN:
        times = np.unique(domain.grid(n)[:, -1])
        x, inside = points_of(domain.space, max(_FEWEST, round(n / len(times))))
        pairs = [np.column_stack([x, np.full(len(x), time)]) for time in times]
        return np.concatenate(pairs), np.tile(inside, len(times))
    if isinstance(domain, Box) or domain.dimension != _DRAWN or not math.isfinite(domain.volume):
        x = domain.grid(n)
        return x, np.ones(len(x), np.bool_)
    box = Box(domain.lower, domain.upper)
    grid = box.grid(max(_FEWEST, round(n * box.volume / domain.volume)))
    spacing = math.sqrt(domain.volume / n)
    on, normals = domain.boundary(max(_FEWEST, round(domain.surface / spacing)))
    corners = domain.corners()
    on = np.concatenate([on, corners])
    normals = np.concatenate([normals, domain.outward_normals(corners)])
    # A point close to the line between two others would have triangles that reach across it.
    distance, _ = KDTree(on).query(grid)
    grid = grid[distance > _APART * spacing]
    x = np.concatenate([grid, on, on + _BEYOND * spacing * normals])
    inside = np.repeat([True, False], [len(grid) + len(on), len(on)])
    inside[: len(grid)] = domain.contains(grid)
    return x, inside


@dataclass(frozen=True)
class Solution(AtPoints):
    """u of a problem by a network with parameters θ: [p], and with these unknowns if any."""

    problem: Problem
    network: Network
    layout: ParameterLayout
    theta: FloatArray

    @property
    def field(self) -> Field:
        """u as a field."""
        parameters = self.layout.unflatten(tf.constant(self.theta))
        return field_of(self.problem, self.network, parameters)

    @property
    def unknowns(self) -> dict[str, Any]:
        """The values of the problem's unknowns, by name."""
        sought, behind = self.problem.unknowns, self.layout.size_of_network
        shapes = {name: unknown.shape for name, unknown in sought.items()}
        return UnknownValues(shapes).by_name(numbers_of(sought, self.theta[behind:]))


def in_time(u: Field, x: FloatArray, order: int, dtype: str) -> FloatArray:
    """Return ∂^q u/∂t^q at x, t the last coordinate: [n, d] -> [n, m]."""
    points = tf.constant(x, dtype)
    axes = [x.shape[1] - 1] * order
    values = derivative(u, points, *axes) if order else u(points)
    return np.asarray(values.numpy(), np.float64)
