"""Equations that hold in a part of the domain, and components that mean something there alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sciml_par.errors import InputError, TrainingError
from sciml_par.networks import RandomFeatures
from sciml_par.problems import (
    Box,
    Dirichlet,
    Interface,
    Interval,
    Neumann,
    Problem,
    Residual,
    laplacian,
)
from sciml_par.training import LeastSquares, solve, train
from sciml_par.training.solving.cell_points import PointsOfTerms

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
WALL, HEAT = 0.4, 3.0
X = np.linspace(0, 1, 31)[:, None]


def inner(x: Any) -> Any:
    return x[:, 0] < WALL


def outer(x: Any) -> Any:
    return x[:, 0] > WALL


def wall(**options: Any) -> Problem:
    """Heat through a wall of two materials, k = 1 and 20: straight lines with a kink."""
    return Problem(
        Interval(0, 1),
        [
            Residual(lambda T, x: laplacian(T["inner"], x), where=inner, name="inner"),
            Residual(
                lambda T, x, f: laplacian(T["outer"], x) - f,
                data=lambda x: 2.0 * np.ones(len(x)),
                where=outer,
                name="outer",
            ),
        ],
        outputs=("inner", "outer"),
        conditions=[
            Dirichlet(1.0, component="inner", on="left"),
            Neumann(HEAT, component="outer", on="right"),
            Interface("inner", "outer", at=("x", WALL), k_left=1.0, k_right=20.0),
        ],
        **options,
    )


def exact(x: Any) -> Any:
    """T″ = 0, then 2; with the same flux and value at the wall."""
    slope = HEAT - 2 * (1 - WALL)
    beyond = 1 + 20 * slope * WALL + slope * (x - WALL) + (x - WALL) ** 2
    return np.where(x < WALL, 1 + 20 * slope * x, beyond)


solved = partial(
    train,
    network=partial(RandomFeatures, features=40, scale=3.0),
    optimizer=LeastSquares(),
    points=60,
    precision="float64",
    evaluation_points=51,
    estimate=True,
    progress=False,
)
by_polynomials = partial(solve, tolerance=1e-8, progress=False)


@pytest.mark.parametrize("method", [by_polynomials, pytest.param(solved, marks=pytest.mark.long)])
def test_the_error_is_known_where_components_mean_something(method: Any) -> None:
    result = method(wall(where={"inner": inner, "outer": outer}))
    u = result.predict(X).mean
    found = np.where(inner(X)[:, None], u[:, :1], u[:, 1:])
    error = np.linalg.norm(found - exact(X)) / np.linalg.norm(exact(X))
    assert error < 1e-8
    assert result.error.known and result.error.relative < 1e-7


def test_an_equation_counts_where_it_holds() -> None:
    equation = wall().residuals[1]
    x, f, holds = equation.payload(X)
    np.testing.assert_array_equal(holds[:, 0] == 1, outer(x))
    assert f.shape == holds.shape == (31, 1)
    with pytest.raises(InputError, match=r"where must return booleans of shape \[31\]"):
        Residual(lambda u, x: u(x), where=lambda x: x).payload(X)
    for where in ({"upper": inner}, {"inner": 3}, [inner]):
        with pytest.raises(InputError, match="where must be a dictionary of functions"):
            wall(where=where)


def test_strata_in_units_of_soils_are_determined() -> None:
    """Pascals beside permeabilities of 1e-14 and 1e-11 m², in 50 m by 10 m, of which clay has 4 m.

    p = cos qx times a sinh qy below, and top cosh q(y - 10) + b sinh q(y - 10) above.
    """
    clay, sand, q, top = 1e-14, 1e-11, np.pi / 50, 2e4
    low, high = (lambda x: x[:, 1] < 4), (lambda x: x[:, 1] > 4)
    (s, c), (z, w) = ((np.sinh(q * y), np.cosh(q * y)) for y in (4, -6))
    a, b = np.linalg.solve([[s, -z], [clay * c, -sand * w]], [top * w, sand * top * z])
    sides = ("left", "right")
    problem = Problem(
        Box([0, 0], [50, 10]),
        [
            Residual(lambda p, x: clay / 1e-3 * laplacian(p["clay"], x), where=low),
            Residual(lambda p, x: sand / 1e-3 * laplacian(p["sand"], x), where=high),
        ],
        outputs=("clay", "sand"),
        where={"clay": low, "sand": high},
        conditions=[
            Dirichlet(0.0, component="clay", on="bottom"),
            Dirichlet(lambda x: top * np.cos(q * x[:, :1]), component="sand", on="top"),
            Neumann(0.0, component="clay", on=sides, where=low),
            Neumann(0.0, component="sand", on=sides, where=high),
            Interface("clay", "sand", at=("y", 4.0), k_left=clay, k_right=sand),
        ],
    )
    result = by_polynomials(problem, tolerance=1e-4)
    x = problem.domain.sample(500, seed=1)
    y = q * x[:, 1:]
    above = top * np.cosh(y - 10 * q) + b * np.sinh(y - 10 * q)
    exact = np.cos(q * x[:, :1]) * np.hstack([a * np.sinh(y), above]) * problem.means(x)
    true = np.linalg.norm(result.predict(x).mean * problem.means(x) - exact)
    assert true <= 3 * result.error.relative * np.linalg.norm(exact) < 1e-4 * top
    assert result.error.undetermined == ()


def test_a_thin_part_in_three_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the volume; ten times as many points along each axis would take all memory."""
    thin, thick = (lambda x: x[:, 2] < 0.1), (lambda x: x[:, 2] > 0.1)
    problem = Problem(
        Box([0, 0, 0], [1, 1, 1]),
        [
            Residual(lambda u, x: laplacian(u["thin"], x), where=thin),
            Residual(lambda u, x: laplacian(u["thick"], x), where=thick),
        ],
        outputs=("thin", "thick"),
        where={"thin": thin, "thick": thick},
        conditions=[
            Dirichlet(1.0, component="thin", on="z=lower"),
            Dirichlet(0.0, component="thick", on="z=upper"),
            Interface("thin", "thick", at=("z", 0.1), k_left=0.1, k_right=1.0),
        ],
    )
    counts, in_cells = list[int](), PointsOfTerms.in_cells

    def counted(points: Any, cells: Any, along: Any, **options: Any) -> Any:
        counts.append(int(np.prod(along)))
        if counts[-1] > 100_000:
            raise TrainingError("too many points")
        return in_cells(points, cells, along, **options)

    monkeypatch.setattr(PointsOfTerms, "in_cells", counted)
    result = solve(problem, tolerance=1e-9, progress=False)
    assert result.error.relative < 1e-9 and not result.error.undetermined
    x = problem.domain.sample(200, seed=0)
    u, wall = result.predict(x).mean, 0.9 / 1.9  # the flux through both is the same
    right = np.where(thin(x), 1 - (1 - wall) * x[:, 2] / 0.1, wall * (1 - x[:, 2]) / 0.9)
    np.testing.assert_allclose(np.where(thin(x), u[:, 0], u[:, 1]), right, atol=1e-9)
    assert max(counts) <= 100_000
