"""Functions of holes beside polynomials: solutions around a hole of the domain."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import j0, j1, k0, y0, y1

import sciml_par as sp
from sciml_par.problems import (
    Ball,
    Box,
    Condition,
    Dirichlet,
    Ellipse,
    Initial,
    Interval,
    Neumann,
    Polygon,
    Problem,
    Robin,
    Time,
    derivative,
    laplacian,
)

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")

SQUARE, AT = Box((0, 0), (1, 1)), (0.4, 0.45)


def sources(*points):
    """Return Σ log |x − p|, which is harmonic away from the points p."""

    def u(x):
        return sum(tf.math.log(tf.reduce_sum((x - p) ** 2, axis=1, keepdims=True)) for p in points)

    return u


def distances(x):
    return np.linalg.norm(x - AT, axis=1, keepdims=True)


def true_and_claimed(problem, exact, tolerance, **options):
    result = sp.solve(problem, tolerance=tolerance, seed=0, **options)
    x = problem.domain.sample(2000, seed=5)
    true = np.linalg.norm(result.predict(x).mean - exact(x)) / np.linalg.norm(exact(x))
    return true, result.error.relative, result


@pytest.mark.parametrize(
    ("domain", "points"),
    [
        (SQUARE - Ball(AT, 0.15), [(0.42, 0.4)]),
        (SQUARE - Ball(AT, 0.02), [(0.395, 0.45), (0.405, 0.45)]),
        (SQUARE - Ball((0.3, 0.3), 0.1) - Ball((0.7, 0.6), 0.2), [(0.32, 0.3), (0.6, 0.65)]),
        (SQUARE - Ellipse((0.5, 0.5), (0.3, 0.2), angle=0.4), [(0.4, 0.45), (0.55, 0.53)]),
        (Ball((0, 0), 1) - Ball((0.3, 0), 0.4), [(0.2, 0.1)]),
    ],
    ids=["hole", "small", "two", "ellipse", "ring"],
)
def test_harmonic_functions_around_holes(domain, points) -> None:
    u = sources(*points)
    problem = Problem(domain, laplacian, conditions=[Dirichlet(u)])
    true, claimed, result = true_and_claimed(problem, lambda x: u(x).numpy(), 1e-7)
    assert true <= 3 * claimed <= 3e-7
    centres = [np.asarray(hole.lower + hole.upper) / 2 for hole in domain._leaves[1:]]
    assert np.isfinite(result.predict(np.array(centres)).mean).all()


def test_a_screened_source_in_a_hole() -> None:
    """(Δ − 9) u = 0 is solved by K₀(3r), which is no sum of harmonic functions."""
    domain = SQUARE - Ball(AT, 0.15)
    outer = [face for face in domain.faces if face != "surface"]
    conditions = [Dirichlet(lambda x: k0(3 * distances(x)), on=outer)]
    conditions += [Dirichlet(float(k0(0.45)), on="surface")]
    problem = Problem(domain, lambda u, x: laplacian(u, x) - 9 * u(x), conditions=conditions)
    true, claimed, _ = true_and_claimed(problem, lambda x: k0(3 * distances(x)), 1e-8)
    assert true <= 3 * claimed <= 3e-8


def test_a_hole_in_units_of_millimetres_and_an_equation_with_two_diffusivities() -> None:
    """u_xx + 4 u_yy = 0 is solved by log √(x² + y²/4)."""
    domain = Box((0, 0), (1000, 1000)) - Ball((400, 450), 150)
    exact = lambda x: np.log(np.hypot(x[:, :1] - 410, (x[:, 1:] - 430) / 2))  # noqa: E731
    equation = lambda u, x: derivative(u, x, 0, 0) + 4 * derivative(u, x, 1, 1)  # noqa: E731
    problem = Problem(domain, equation, conditions=[Dirichlet(exact)])
    true, claimed, _ = true_and_claimed(problem, exact, 1e-7)
    assert true <= 3 * claimed <= 3e-7


@pytest.mark.long
def test_heat_around_a_hole() -> None:
    """exp(−9t) (J₀ + Y₀)(3r), with a flux on the hole; the change tells the error."""
    domain = (Box((0, 0), (1, 1)) - Ball(AT, 0.15)) * Time(0, 0.2)

    def exact(x):
        r = 3 * distances(x[:, :2])
        return np.exp(-9 * x[:, 2:]) * (j0(r) + y0(r))

    def flux(x):
        return np.exp(-9 * x[:, 2:]) * 3 * (j1(0.45) + y1(0.45))

    def equation(u, x):
        return derivative(u, x, 2) - derivative(u, x, 0, 0) - derivative(u, x, 1, 1)

    outer = [f for f in domain.faces if f not in ("surface", "initial", "final")]
    conditions = [Initial(exact), Dirichlet(exact, on=outer), Neumann(flux, on="surface")]
    problem = Problem(domain, equation, conditions=conditions)
    true, claimed, _ = true_and_claimed(problem, exact, 3e-4, seconds=200)
    assert true <= 3 * claimed <= 1e-3


def test_a_plate_with_a_hole_under_tension() -> None:
    """Displacements of Kirsch, E = 1, ν = 0.3 in plane stress, the hole without traction."""
    nu, a, shear = 0.3, 0.3, 1 / 2.6
    first, kappa = nu / (1 - nu**2), (3 - nu) / (1 + nu)

    def exact(x):
        r, angle = np.hypot(x[:, 0], x[:, 1]) / a, np.arctan2(x[:, 1], x[:, 0])
        cos, sin = np.cos(2 * angle), np.sin(2 * angle)
        along = r * (kappa - 1) + 2 / r + 2 * cos * (r + (kappa + 1) / r - 1 / r**3)
        around = -2 * sin * (r + (kappa - 1) / r + 1 / r**3)
        turned = np.exp(1j * angle) * (along + 1j * around) * a / (8 * shear)
        return np.stack([turned.real, turned.imag], axis=1)

    def equation(u, x):
        d = lambda k, i, j: derivative(u, x, i, j)[:, k : k + 1]  # noqa: E731
        along = first + 2 * shear
        both = [along * d(k, k, k) + shear * d(k, 1 - k, 1 - k) for k in (0, 1)]
        mixed = [(first + shear) * d(1 - k, 0, 1) for k in (0, 1)]
        return tf.concat([p + q for p, q in zip(both, mixed, strict=True)], axis=1)

    def traction(u, x, normals):
        g = lambda k, i: derivative(u, x, i)[:, k : k + 1]  # noqa: E731
        spread = first * (g(0, 0) + g(1, 1))
        across = shear * (g(0, 1) + g(1, 0))
        parts = [
            (spread + 2 * shear * g(k, k)) * normals[:, k : k + 1]
            + across * normals[:, 1 - k : 2 - k]
            for k in (0, 1)
        ]
        return tf.concat(parts, axis=1)

    plate = Box((-1, -1), (1, 1)) - Ball((0, 0), a)
    outer = [face for face in plate.faces if face != "surface"]
    conditions = [Dirichlet(exact, on=outer), Condition(traction, on="surface")]
    problem = Problem(plate, equation, conditions=conditions, outputs=2)
    true, claimed, _ = true_and_claimed(problem, exact, 1e-9)
    assert true <= claimed <= 1e-9


@pytest.mark.long
def test_a_bracket_with_a_hole_over_time() -> None:
    """Values by linear finite elements of the size 1/80 and 400 steps of Crank and Nicolson."""
    space = Box((0, 0), (2, 2)) - Box((1, 1), (2, 2)) - Ball((0.5, 0.5), 0.2)
    domain = space * Time(0, 1)

    def equation(u, x):
        squares = (x[:, :1] - 0.5) ** 2 + (x[:, 1:2] - 1.5) ** 2
        spread = derivative(u, x, 0, 0) + derivative(u, x, 1, 1)
        return derivative(u, x, 2) - spread - 5 * tf.exp(-squares / 0.1)

    straight = [f for f in domain.faces if f not in ("surface", "initial", "final")]
    conditions = [Initial(0.0), Neumann(0.0, on=straight), Robin(10.0, 1.0, on="surface")]
    problem = Problem(domain, equation, conditions=conditions)
    result = sp.solve(problem, tolerance=1e-3, seed=0, seconds=300)
    places = [(0.5, 1.5, 1), (0.5, 0.9, 1), (1.5, 0.5, 1), (0.5, 1.5, 0.1), (0.5, 0.75, 0.5)]
    found = result.predict(np.array([*places, (1.9, 0.1, 1)])).mean[:, 0]
    by_elements = [0.94548, 0.36662, 0.09395, 0.21626, 0.11990, 0.07136]
    np.testing.assert_allclose(found, by_elements, atol=5e-4)
    assert result.error.relative <= 1e-3


@pytest.mark.parametrize(
    "domain",
    [
        SQUARE - Ball((0, 0), 0.5),
        SQUARE - Ball((0.5, 0.5), 0.1) - Box((0.5, 0.4), (0.7, 0.6)),
        Ball((0, 0), 1),
        Polygon([[0, 0], [1, 0], [1, 1]]),
        Interval(0, 1),
    ],
    ids=["at a corner", "with a slot", "disc", "polygon", "line"],
)
def test_what_is_no_hole(domain) -> None:
    """A disc that is cut off, or out of which more is cut, has no functions of its own."""
    problem = Problem(domain, lambda u, x: laplacian(u, x) + 1.0, conditions=[Dirichlet(0.0)])
    result = sp.solve(problem, tolerance=1e-2, seconds=20)
    found = [type(function).__name__ for function, _ in result.networks[0].corners]
    assert "HoleFunction" not in found
