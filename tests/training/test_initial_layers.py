"""Initial values that boundary values contradict: layers grow from corners of space and time."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import solve_ivp
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import least_squares
from scipy.special import erfc

import sciml_par as sp
from sciml_par.evaluation import relative_l2_error
from sciml_par.networks.propagation.layer_functions import LayerFunction
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Neumann,
    Observations,
    Problem,
    Robin,
    Time,
    Unknown,
    derivative,
)
from sciml_par.training import Result

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")

SIDES = ["left", "right"]
ROD = Interval(0, 1) * Time(0, 1)


def heat(u, x):
    return derivative(u, x, "t") - derivative(u, x, "x", "x")


def one_side_heated(x: np.ndarray) -> np.ndarray:
    """Return u of ∂u/∂t = ∂²u/∂x², 1 at x = 0, else 0, by images: [n, 2] -> [n, 1]."""
    s, t = x[:, :1] + 2 * np.arange(12), x[:, 1:]
    images = erfc(s / (2 * np.sqrt(t))) - erfc((s + 2 - 2 * x[:, :1]) / (2 * np.sqrt(t)))
    return images.sum(axis=1, keepdims=True)


def check(problem: Problem, exact, tolerance: float) -> Result:
    """Solve, and check the error and what is claimed of it where t > 0."""
    result = sp.solve(problem, tolerance=tolerance)
    x = problem.domain.sample(1_000, seed=5)
    error = relative_l2_error(result.predict(x).mean, np.asarray(exact(x)))
    assert error <= min(tolerance, 3 * result.error.relative)
    assert result.error.relative <= tolerance
    return result


def test_an_unknown_diffusivity_is_measured_by_a_sudden_heating() -> None:
    """A bar of 10 cm at 20 °C, one end of which is at 100 °C from the begin on; in SI units."""
    width, duration, true = 0.1, 600.0, 1.2e-5
    rng = np.random.default_rng(3)
    places = np.repeat([0.01, 0.03], 40), np.tile(np.linspace(15, duration, 40), 2)
    x = np.stack(places, axis=1)

    def exact(k):
        in_units = np.stack([x[:, 0] / width, k * x[:, 1] / width**2], axis=1)
        return 20 + 80 * one_side_heated(in_units)

    values = exact(true) + 0.5 * rng.normal(size=(80, 1))
    fit = least_squares(lambda p: (exact(1e-5 * p) - values).ravel() / 0.5, 1.0)
    deviation = 1e-5 / float(np.linalg.norm(fit.jac))
    problem = Problem(
        Interval(0, width) * Time(0, duration),
        lambda u, x, k: derivative(u, x, "t") - k * derivative(u, x, "x", "x"),
        conditions=[
            Initial(20.0),
            Dirichlet(100.0, on="left"),
            Dirichlet(20.0, on="right"),
            Observations(x, values, noise=0.5),
        ],
        unknowns={"k": Unknown(5e-5, lower=0)},
    )
    result = sp.solve(problem, tolerance=1e-3)
    uncertainty = result.uncertainty()
    assert abs(uncertainty.values[0] - 1e-5 * fit.x[0]) < 0.1 * deviation
    assert uncertainty.deviations[0] == pytest.approx(deviation, rel=0.1)
    assert result.error.relative < 1e-3


def test_layers_in_a_material_whose_diffusivity_varies() -> None:
    def equation(u, x):
        k = 1 + x[:, :1]
        diffusion = k * derivative(u, x, "x", "x") + derivative(u, x, "x")
        return derivative(u, x, "t") - 0.1 * diffusion

    conditions = [Initial(0.0), Dirichlet(1.0, on="left"), Dirichlet(0.0, on="right")]
    problem = Problem(ROD, equation, conditions=conditions)

    def late(x):
        """Return u by Chebyshev's points, from a jump at the first of them."""
        n = 400
        z = (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2
        apart = z[:, None] - z + np.eye(n + 1)
        c = np.array([2.0, *np.ones(n - 1), 2.0]) * (-1.0) ** np.arange(n + 1)
        d = np.outer(c, 1 / c) / apart
        d -= np.diag(d.sum(axis=1))
        inner = (0.1 * d @ np.diag(1 + z) @ d)[1:-1]
        found = solve_ivp(
            lambda _, u: inner[:, 1:-1] @ u + inner[:, 0],
            (0, 1),
            np.zeros(n - 1),
            "Radau",
            np.unique(x[:, 1]),
            jac=inner[:, 1:-1],
            rtol=1e-9,
            atol=1e-11,
        )
        u = np.pad(found.y, ((1, 1), (0, 0)))
        u[0] = 1.0
        columns = np.searchsorted(found.t, x[:, 1])
        return np.array(
            [BarycentricInterpolator(z, u[:, k])(s) for s, k in zip(x[:, 0], columns, strict=True)]
        )[:, None]

    result = sp.solve(problem, tolerance=1e-5)
    x = np.stack(np.meshgrid(np.linspace(0.05, 0.95, 7), [0.1, 0.5, 1.0]), axis=-1).reshape(-1, 2)
    error = relative_l2_error(result.predict(x).mean, late(x))
    assert error < 1e-6 and result.error.relative < 1e-5


def test_a_side_is_heated_at_once_in_any_units(tmp_path) -> None:
    """Two centimetres of 300 K, of which one side has 400 K from the begin on."""
    width, duration = 0.02, 400.0

    def equation(u, x):
        diffusion = width**2 / duration * derivative(u, x, "x", "x")
        return derivative(u, x, "t") - diffusion

    conditions = [Initial(300.0), Dirichlet(400.0, on="left"), Dirichlet(300.0, on="right")]
    problem = Problem(Interval(0, width) * Time(0, duration), equation, conditions=conditions)
    exact = lambda x: 300 + 100 * one_side_heated(x / [width, duration])  # noqa: E731
    result = check(problem, exact, 1e-7)
    result.save(tmp_path / "rod")
    x = problem.domain.sample(50, seed=1)
    loaded = Result.load(tmp_path / "rod").predict(x).mean
    np.testing.assert_allclose(loaded, result.predict(x).mean, rtol=1e-9)


def test_a_source_begins_at_once() -> None:
    """u = 0 at first and on the sides, where the equation asks for ∂u/∂t = 1."""
    k = np.arange(1, 4_001, 2) * np.pi

    def series(x):
        grown = (1 - np.exp(-(k**2) * x[:, 1:])) / k**3
        return np.sum(4 * grown * np.sin(k * x[:, :1]), axis=1, keepdims=True)

    conditions = [Initial(0.0), Dirichlet(0.0, on=SIDES)]
    problem = Problem(ROD, lambda u, x: heat(u, x) - 1.0, conditions=conditions)
    result = check(problem, series, 1e-4)
    assert len(result.networks[0].cells.kept) == 1  # neither windows nor slabs were needed


def test_a_side_begins_to_cool() -> None:
    """−∂u/∂x = 2 u at x = 1 from u = 1 on: eigenfunctions cos μx, μ tan μ = 2."""
    from scipy.optimize import brentq

    of = lambda m: m * np.sin(m) - 2 * np.cos(m)  # noqa: E731
    mu = np.array([brentq(of, n * np.pi, (n + 0.5) * np.pi) for n in range(800)])
    weights = 4 * np.sin(mu) / (2 * mu + np.sin(2 * mu))

    def series(x):
        modes = weights * np.cos(mu * x[:, :1]) * np.exp(-(mu**2) * x[:, 1:])
        return modes.sum(axis=1, keepdims=True)

    conditions = [Initial(1.0), Neumann(0.0, on="left"), Robin(2.0, 1.0, 0.0, on="right")]
    check(Problem(ROD, heat, conditions=conditions), series, 1e-4)


def test_species_of_different_diffusivities() -> None:
    """Two layers of different widths grow from one side, and react with each other."""
    kappa = tf.constant([[0.1, 0.02]], tf.float64)

    def exact(x):
        time = tf.maximum(x[:, 1:], 1e-300)
        return tf.math.erfc(x[:, :1] / (2 * tf.sqrt(kappa * time)))

    def equation(u, x):
        product = lambda v: v[:, :1] * v[:, 1:]  # noqa: E731
        diffusion = kappa * derivative(u, x, "x", "x")
        return derivative(u, x, "t") - diffusion + product(u(x)) - product(exact(x))

    conditions = [
        Initial([0.0, 0.0]),
        Dirichlet([1.0, 1.0], on="left"),
        Dirichlet(exact, on="right"),
    ]
    problem = Problem(ROD, equation, conditions=conditions, outputs=("a", "b"))
    check(problem, exact, 1e-4)


def by_collocation(rates, x: np.ndarray) -> np.ndarray:
    """Return u of u_t = rates(u, u_x, u_xx), 1 at x = 0, else 0 at first: [n, 2] -> [n, 1].

    At Chebyshev's points (Trefethen, Spectral Methods in MATLAB, 2000, §6), by Radau's method.
    """
    k = np.arange(129)
    nodes = (1 - np.cos(np.pi * k / 128)) / 2
    c = (-1.0) ** k * np.where(k % 128 == 0, 2, 1)
    d = np.outer(c, 1 / c) / (nodes[:, None] - nodes + np.eye(129))
    d -= np.diag(d.sum(axis=1))
    second = d @ d  # rounding of d @ (d @ u) would spoil the Jacobian, and take a minute

    def change(_, inner):
        u = np.concatenate([[1.0], inner, [0.0]])
        return rates(u, d @ u, second @ u)[1:-1]

    times, at = np.unique(x[:, 1], return_inverse=True)
    options = {"rtol": 1e-8, "atol": 1e-10, "t_eval": times}
    u = np.pad(solve_ivp(change, (0, 1), np.zeros(127), "Radau", **options).y, ((1, 1), (0, 0)))
    u[0] = 1.0
    along = BarycentricInterpolator(nodes, u)(x[:, 0])
    return along[np.arange(len(x)), at][:, None]


@pytest.mark.parametrize(
    ("source", "rates"),
    [
        (lambda u, x: 5 * u(x) * (1 - u(x)), lambda u, _, second: 0.1 * second + 5 * u * (1 - u)),
        (
            lambda u, x: -2 * derivative(u, x, "x"),
            lambda _, first, second: 0.1 * second - 2 * first,
        ),
    ],
    ids=["reaction", "flow"],
)
def test_layers_that_react_or_are_carried_along(source, rates) -> None:
    def equation(u, x):
        return derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x") - source(u, x)

    conditions = [Initial(0.0), Dirichlet(1.0, on="left"), Dirichlet(0.0, on="right")]
    result = sp.solve(Problem(ROD, equation, conditions=conditions), tolerance=1e-5)
    x = ROD.sample(200, seed=5)
    x[:, 1] = 0.05 + 0.95 * x[:, 1]  # before, the reference is not as exact
    error = relative_l2_error(result.predict(x).mean, by_collocation(rates, x))
    assert error <= min(1e-5, 3 * result.error.relative) and result.error.relative <= 1e-5


@pytest.mark.long
def test_a_plate_is_heated_by_a_source_from_the_begin_on() -> None:
    """In the plane and time, on the box: corners of space first, then those of time."""
    domain = Box((0, 0), (1, 1)) * Time(0, 0.3)

    def equation(u, x):
        return heat(u, x) - derivative(u, x, "y", "y") - 1.0

    nodes, weights = np.polynomial.legendre.leggauss(60)
    k = np.arange(1, 400, 2) * np.pi

    def of_one(x, t):
        return np.sum(4 / k * np.sin(k * x[:, None]) * np.exp(-(k**2) * t[:, None]), axis=1)

    def exact(x):  # the integral over s = t v² of a product
        found = np.zeros(len(x))
        for v, w in zip((1 + nodes) / 2, weights / 2, strict=True):
            t = x[:, 2] * v**2
            found += 2 * v * w * x[:, 2] * of_one(x[:, 0], t) * of_one(x[:, 1], t)
        return found[:, None]

    conditions = [Initial(0.0), Dirichlet(0.0, on=["x=lower", "x=upper", "y=lower", "y=upper"])]
    check(Problem(domain, equation, conditions=conditions), exact, 5e-3)


def test_waves_have_no_layers() -> None:
    def equation(u, x):
        return derivative(u, x, "t", "t") - derivative(u, x, "x", "x")

    bump = lambda x: (1 - (4 * x[:, :1] - 2) ** 2) ** 2  # noqa: E731
    conditions = [Initial(bump), Initial(0.0, order=1), Dirichlet(0.0, on=SIDES)]
    with pytest.warns(sp.errors.ResultWarning):
        result = sp.solve(Problem(ROD, equation, conditions=conditions), tolerance=1e-9, seconds=3)
    assert not getattr(result.networks[0], "corners", ())


def test_both_functions_of_a_layer_solve_the_heat_equation() -> None:
    """The second one times τ; at the initial time the first is 1 on the side and 0 elsewhere."""
    layer = LayerFunction((0.5, 2.0), (-4.0,), 3.0, 4)
    x = np.column_stack([0.5 - np.linspace(0, 0.5, 40), 2 + np.geomspace(1e-9, 3, 40)])
    parts = layer.parts(x, [(), (0, 0), (1,)])
    tau = (x[:, 1] - 2) / 3
    by_time, by_space = 3 * parts[1,], parts[0, 0] / 16
    np.testing.assert_allclose(by_time[0], by_space[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_time[1], by_space[1] + parts[()][1] / tau, rtol=1e-9, atol=1e-12)
    at_begin = layer.parts(np.array([[0.5, 2.0], [0.49, 2.0]]), [()])[()]
    np.testing.assert_allclose(at_begin, [[1, 0], [0, 0]], atol=1e-12)
