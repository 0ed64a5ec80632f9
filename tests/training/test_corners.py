"""Functions of corners beside polynomials: solutions that are singular there."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.errors import InputError
from sciml_par.evaluation import relative_l2_error
from sciml_par.networks import Polynomials
from sciml_par.networks.propagation.corner_functions import CornerFunction
from sciml_par.networks.propagation.hole_functions import HoleFunction
from sciml_par.networks.propagation.layer_functions import LayerFunction
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Neumann,
    Periodic,
    Polygon,
    Problem,
    Time,
    derivative,
    laplacian,
)
from sciml_par.training import Result

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")

L = np.array([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)], float)
EDGES = [f"edge {k}" for k in range(1, 7)]


def singular(power: float):
    """Return r^p sin pφ, φ from the side y = 0 of the L to its side x = 0."""

    def values(x):
        across, along = x[:, :1] + x[:, 1:2], x[:, 1:2] - x[:, :1]
        angle = tf.atan2(-across, along) + 3 * np.pi / 4
        r2 = tf.reduce_sum(x[:, :2] ** 2, axis=1, keepdims=True)
        return r2 ** (power / 2) * tf.sin(power * angle)

    return values


def by_collocation(x: np.ndarray) -> np.ndarray:
    """Return u of Δu = −1 in the L, 0 on its boundary, to 1e-10: [n, 2] -> [n, 1].

    −r²/4 and harmonic functions of all corners that suit the boundary best.
    """

    def columns(x):
        z = x @ np.array([1, 1j])
        turned = z * np.exp(-0.75j * np.pi)
        r, angle = np.abs(z), np.angle(turned) + 0.75 * np.pi
        found = [r ** (2 * k / 3) * np.sin(2 * k / 3 * angle) for k in range(1, 60)]
        found += [(z**2 * (np.log(np.maximum(r, 1e-300)) + 1j * angle)).imag]
        for corner, inward in zip(L[1:], [-1 + 1j, -1 - 1j, 1 - 1j, 1 + 1j, -1 + 1j], strict=True):
            q = (z - corner @ np.array([1, 1j])) / (inward / abs(inward))
            log = np.log(np.where(q == 0, 1e-300, q))
            for power in (2, 6, 10, 14, 18, 22):
                found += [(q**power * log).real, (q**power * log).imag]
        return np.array(found).T

    s = (1 - np.cos(np.pi * np.linspace(0, 1, 1602)[1:-1])) / 2
    sides = [a + (b - a) * s[:, None] for a, b in zip(L, np.roll(L, -1, axis=0), strict=True)]
    edge = np.concatenate(sides)
    scale = np.linalg.norm(columns(edge), axis=0)
    c = np.linalg.lstsq(columns(edge) / scale, np.sum(edge**2, axis=1) / 4, 1e-14)[0] / scale
    return (columns(x) @ c - np.sum(x**2, axis=1) / 4)[:, None]


def true_and_claimed(problem: Problem, exact, tolerance: float, seconds: float = 60):
    result = sp.solve(problem, tolerance=tolerance, seconds=seconds)
    x = problem.domain.sample(2_000, seed=5)
    return relative_l2_error(result.predict(x).mean, np.asarray(exact(x))), result


@pytest.mark.parametrize("units", [(1.0, 1.0), (0.25, 1.0)])
def test_a_corner_of_any_polygon_in_any_units(units) -> None:
    """Coordinates in different units make the equation another one than Laplace's."""
    a, b = units

    def equation(u, x):
        return a**2 * derivative(u, x, 0, 0) + b**2 * derivative(u, x, 1, 1) + 1.0

    problem = Problem(Polygon(L * units), equation, conditions=[Dirichlet(0.0)])
    exact = lambda x: by_collocation(x / np.array(units))  # noqa: E731
    error, result = true_and_claimed(problem, exact, 1e-6)
    assert error <= 1e-6
    assert error / 3 <= result.error.relative <= 1e-6
    assert len(result.networks[0].cells.kept) == 1  # no window was needed


def test_the_corners_of_a_square(tmp_path) -> None:
    """Δu = −1 asks for r² log r where two sides meet at which u is given."""
    problem = Problem(
        Box((0, 0), (1, 1)), lambda u, x: laplacian(u, x) + 1.0, conditions=[Dirichlet(0.0)]
    )
    k = np.arange(1, 400, 2) * np.pi

    def series(x):
        across = 1 - np.cosh(k * (x[:, 1:] - 0.5)) / np.cosh(k / 2)
        return np.sum(4 / k**3 * across * np.sin(k * x[:, :1]), axis=1, keepdims=True)

    error, result = true_and_claimed(problem, series, 1e-6)
    assert error <= 1e-6 and result.error.relative <= 1e-6
    result.save(tmp_path / "square")
    x = problem.domain.sample(50, seed=1)
    loaded = Result.load(tmp_path / "square")
    np.testing.assert_allclose(
        loaded.predict(x).mean, result.predict(x).mean, rtol=1e-9, atol=1e-12
    )


def test_between_a_value_and_a_flux_there_are_further_powers() -> None:
    exact = singular(1 / 3)
    given = [Dirichlet(exact, on=EDGES[:5]), Neumann(0.0, on=EDGES[5:])]
    error, result = true_and_claimed(Problem(Polygon(L), laplacian, conditions=given), exact, 1e-6)
    assert error <= 1e-6 and result.error.relative <= 1e-6


def test_corners_behind_which_the_domain_goes_on_have_functions_in_windows() -> None:
    exact = singular(2 / 3)
    domain = Polygon(L) - Box((-0.7, 0.3), (-0.4, 0.6))
    problem = Problem(domain, laplacian, conditions=[Dirichlet(exact)])
    error, result = true_and_claimed(problem, exact, 1e-5)
    assert error <= 1e-5 and result.error.relative <= 1e-5


@pytest.mark.long
def test_an_evolution_beside_a_corner() -> None:
    power = singular(2 / 3)
    exact = lambda x: tf.sin(x[:, 2:]) * power(x)  # noqa: E731

    def equation(u, x):
        source = tf.cos(x[:, 2:]) * power(x)
        return derivative(u, x, 2) - derivative(u, x, 0, 0) - derivative(u, x, 1, 1) - source

    conditions = [Initial(0.0), Dirichlet(exact, on=EDGES)]
    problem = Problem(Polygon(L) * Time(0, 1), equation, conditions=conditions)
    error, result = true_and_claimed(problem, exact, 1e-3, seconds=200)
    assert error <= 1e-3 and result.error.relative <= 1e-3


@pytest.mark.parametrize("dropped", [None, (), (2,)])
def test_columns_are_those_of_the_network(dropped) -> None:
    """In closed form by NumPy, and by TensorFlow; derivatives by differences."""
    from sciml_par._partial_operators import operator_of_matrix
    from sciml_par.assembly.asked import Request
    from sciml_par.assembly.columns import jets_of

    corners = [
        CornerFunction((0.0, 0.0), (-0.7, 0.7), (-0.7, -0.7), 2 / 3, False, 2),
        CornerFunction((1.0, 1.0), (-0.7, -0.7), (0.7, -0.7), 2.0, True, 1),
        LayerFunction((-1.0, -1.2), (0.6,), 0.5, 3, until=1.2, products=True, changes=3),
        HoleFunction((0.5, -0.5), (2.0, 0.3), (-0.3, 2.0), (0.05, 0.02), 0, 1),
        HoleFunction((0.5, -0.5), (2.0, 0.3), (-0.3, 2.0), (0.05, 0.02), 2, 1),
    ]
    sides = {} if dropped is None else {"breaks": [[-1, 0, 1]] * 2, "dropped": dropped}
    model = Polynomials(2, 2, degree=4, corners=corners, **sides)
    rng = np.random.default_rng(0)
    c, x = rng.normal(size=model.coefficients.shape), rng.uniform(-1, 1, (60, 2))
    x = x[~((x[:, 0] > 0) & (x[:, 1] < 0))]
    model.coefficients.assign(c)
    second = np.array([[[1.0, 0], [0, 1]], [[0, 0.5], [0.5, 0]]])
    u, slope, curvature = model.jet([tf.constant(c)], tf.constant(x), second)
    by_tensorflow = np.concatenate([u[..., None], slope, curvature], axis=2).transpose(2, 1, 0)
    by_numpy = jets_of(model, c, Request(x, tuple(map(operator_of_matrix, second))))
    np.testing.assert_allclose(by_numpy, by_tensorflow, atol=1e-12 * np.abs(by_numpy).max())
    h = 1e-5
    difference = (model(x + [h, 0.0]) - model(x - [h, 0.0])) / (2 * h)
    np.testing.assert_allclose(difference, slope[:, :, 0], rtol=1e-5, atol=1e-6)
    again = Polynomials.from_config(model.get_config())
    again.coefficients.assign(c)
    np.testing.assert_array_equal(again(x), model(x))


def test_what_a_layer_is_made_of() -> None:
    for across, duration in (((1.0, 2.0), 1.0), ((1.0,), 0.0), ((0.0,), 1.0)):
        with pytest.raises(
            InputError, match="one number more than across=, which is not zero, and"
        ):
            LayerFunction((0.0, 0.0), across, duration, 3)


@pytest.mark.parametrize("wrong", [(0.0, 0.0), {"at": (0.0, 0.0)}])
def test_what_a_corner_is_made_of(wrong) -> None:
    with pytest.raises(
        InputError, match="corners= to be a CornerFunction or a HoleFunction or a LayerFunction"
    ):
        Polynomials(2, 1, degree=3, corners=[wrong])


def test_periodic_sides_have_no_corners() -> None:
    def equation(u, x):
        return laplacian(u, x) - u(x) + tf.sin(2 * np.pi * x[:, :1])

    conditions = [Periodic("x"), Dirichlet(0.0, on=["bottom", "top"])]
    problem = Problem(Box((0, 0), (1, 1)), equation, conditions=conditions)
    result = sp.solve(problem, tolerance=1e-4)
    assert result.error.relative <= 1e-4 and not result.networks[0].corners
