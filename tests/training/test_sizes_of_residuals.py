"""Residuals of problems in SI units are divided by their sizes; natural units stay as they are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from _programs import problem_named

from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Initial,
    Interval,
    Neumann,
    Observations,
    Problem,
    Residual,
    Time,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.results import Result
from sciml_par.training import LevenbergMarquardt, solve, train
from sciml_par.training.weights.of_size import ranges_of_components, sizes_of_residuals

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
YOUNG, INERTIA, LOAD, NOISE = 2.1e11, 1e-9, 100.0, 1e-3  # Pa, m⁴, N/m, m
AT = np.linspace(0.1, 1, 15)[:, None]


def deflection(x: Any) -> Any:
    return LOAD / (24 * YOUNG * INERTIA) * (x**4 - 4 * x**3 + 6 * x**2)


SEEN = deflection(AT) + NOISE * np.random.default_rng(2).normal(size=AT.shape)


def beam(**options: Any) -> Problem:
    """A cantilever of 1 m, with measured deflections of centimetres."""
    return Problem(
        Interval(0, 1),
        Residual(lambda u, x, *, E: E * INERTIA * derivative(u, x, 0, 0, 0, 0) - LOAD, **options),
        conditions=[
            Dirichlet(0.0, on="left"),
            Neumann(0.0, on="left"),
            Condition(lambda u, x: derivative(u, x, 0, 0), on="right", name="moment"),
            Condition(lambda u, x: derivative(u, x, 0, 0, 0), on="right", name="shear"),
            Observations(AT, SEEN, noise=NOISE),
        ],
        unknowns={"E": Unknown(1e11, lower=0)},
        name="beam",
    )


@pytest.mark.beside
def test_a_beam_in_si_units_has_the_modulus_of_least_squares(tmp_path: Any) -> None:
    result = train(
        beam(),
        network=partial(MLP, width=10, depth=1),
        optimizer=LevenbergMarquardt(),
        steps=150,
        points=60,
        precision="float64",
        grow=False,
        progress=False,
    )
    shape = YOUNG * deflection(AT)
    inverse = float((shape * SEEN).sum() / (shape**2).sum())
    deviation = NOISE / np.sqrt((shape**2).sum()) / inverse**2
    young = result.unknowns["E"].mean
    assert abs(young - 1 / inverse) < 0.3 * deviation
    low, high = result.uncertainty().intervals["E"]
    assert (high - low) / (2 * 1.96) == pytest.approx(deviation, rel=0.15)
    sizes = result.members[0].sizes
    assert sizes["residual"] == 128.0 and sizes["dirichlet"] < 0.1 and "observations" not in sizes
    assert "divides residuals by their sizes" in "\n".join(result.remarks)
    result.save(tmp_path, plots=False)
    assert Result.load(tmp_path, problem=beam()).members[0].sizes == sizes


def cooling(k: float, *, rho_c: float, length: float, duration: float) -> Problem:
    return Problem(
        Box([0, 0], [length, length]) * Time(0, duration),
        lambda T, x: rho_c * derivative(T, x, "t") - k * laplacian(T, x, over=("x", "y")),
        conditions=[
            Initial(37.0),
            Dirichlet(-100.0, on="bottom"),
            Neumann(0.0, on=("left", "right", "top")),
        ],
    )


def test_sizes_are_those_of_the_largest_terms() -> None:
    sizes = sizes_of_residuals(cooling(0.5, rho_c=3.6e6, length=0.1, duration=900.0))
    # 3.6e6 · 100 K / 450 s; 100 K; and 100 K / 0.05 m, within a factor 4.
    for name, size in {"residual": 8e5, "initial": 100, "dirichlet": 100, "neumann": 2e3}.items():
        assert size / 4 < sizes[name] < 4 * size, name
        assert np.log2(sizes[name]) % 1 == 0
    rate = Problem(
        Time(0, 2000),
        lambda u, t: derivative(u, t, "t") + 2e-6 * u(t) ** 2,
        conditions=[Initial(1000.0)],
    )
    assert sizes_of_residuals(rate)["initial"] == pytest.approx(1000, rel=0.6)


def film(residual: Any) -> Problem:
    """In a domain of micrometres."""
    return Problem(Interval(0, 1e-6), residual, conditions=[Dirichlet(300.0)])


def test_the_residual_is_called_twice() -> None:
    calls: list[Any] = []

    def residual(u: Any, x: Any) -> Any:
        calls.append(x)
        return laplacian(u, x) - 5.0

    assert sizes_of_residuals(film(residual))["residual"] > 1e12 and len(calls) == 2


def test_points_that_a_residual_joins_itself_have_the_same_sizes() -> None:
    def apart(u: Any, x: Any) -> Any:
        return laplacian(u, x) * (1 + u(x)) - u(0.3 * x)

    def joined(u: Any, x: Any) -> Any:
        here, there = tf.split(u(tf.concat([x, 0.3 * x], axis=0)), 2)
        return laplacian(u, x) * (1 + here) - there

    sizes = sizes_of_residuals(film(apart))
    assert sizes and sizes == sizes_of_residuals(film(joined))


def assert_scaled(make: Any, small: float, large: float) -> None:
    """Check that sizes and ranges are in proportion, and that each term has one."""
    problems = [make(size) for size in (small, large)]
    sizes = [sizes_of_residuals(problem) for problem in problems]
    assert sizes[0].keys() == sizes[1].keys() == {term.name for term in problems[0].terms}
    for name, size in sizes[0].items():  # powers of 2
        assert sizes[1][name] / size == pytest.approx(large / small, rel=0.5), name
    ranges = [np.array(ranges_of_components(problem)) for problem in problems]
    np.testing.assert_allclose(ranges[1] / large, ranges[0] / small, rtol=1e-6)


def caused(size: float) -> Problem:
    """u″ = f of a size, and v″ = u."""

    def second(u: Any, x: Any) -> Any:
        return derivative(u, x, 0, 0, component="v") - u["u"](x)

    def first(u: Any, x: Any) -> Any:
        return derivative(u, x, 0, 0, component="u") - size * tf.sin(np.pi * x)

    ends = [Dirichlet(0.0, component=each) for each in ("u", "v")]
    return Problem(Interval(0, 1), [first, second], conditions=ends, outputs=("u", "v"))


def rounded(size: float) -> Problem:
    """The values at the ends are 1e-16 times the size, the rounding of zero."""

    def exact(x: Any) -> Any:
        return size * np.sin(np.pi * x)

    source = Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: -(np.pi**2) * exact(x))
    return Problem(Interval(0, 1), source, conditions=[Dirichlet(exact)])


def constant(value: float) -> Problem:
    return Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(value)])


@pytest.mark.parametrize("make", [caused, rounded, constant])
def test_sizes_and_ranges_are_in_proportion_to_values_and_sources(make: Any) -> None:
    assert sizes_of_residuals(make(1.0)) == {} and ranges_of_components(make(1.0)) is None
    assert_scaled(make, 1e-9, 1e9)


NATURAL = ["helmholtz", "heat-long", "standing-wave", "beam", "elasticity", "lorenz", "pipe"]


@pytest.mark.parametrize("name", NATURAL)
def test_natural_units_stay_as_they_are(name: str) -> None:
    assert sizes_of_residuals(problem_named(name)) == {}


@pytest.mark.parametrize(
    "problem",
    [
        beam(weight=0.1),
        beam().with_term_weights({"moment": 2.0}),
        Problem(  # it is not finite for the functions that are tried
            Interval(0, 1),
            lambda u, x: 1e9 * derivative(u, x, 0) + tf.math.log(-u(x)),
            conditions=[Dirichlet(1.0, on="left")],
        ),
    ],
    ids=["weight of the equation", "weight of a term", "not finite"],
)
def test_weights_that_are_given_hold(problem: Problem) -> None:
    assert sizes_of_residuals(problem) == {}


@pytest.mark.parametrize("size", [1.0, 1e-19])
def test_values_that_are_rounding_are_no_values(size: float) -> None:
    """sin πx is 1e-16 at x = 1, in an equation that is not linear: nothing else tells a size."""

    def exact(x: Any) -> Any:
        return size * np.sin(np.pi * x) if size == 1.0 else size * (1 + x)

    def bratu(u: Any, x: Any) -> Any:
        return laplacian(u, x) / size + tf.exp(u(x) / size) - 1.0

    ranges = ranges_of_components(Problem(Interval(0, 1), bratu, conditions=[Dirichlet(exact)]))
    assert ranges is None if size == 1.0 else ranges[0] == pytest.approx((1e-19, 2e-19))


def test_boundary_values_that_are_rounding() -> None:
    """Bratu's equation with the boundary values of its solution."""

    def exact(x: Any) -> Any:
        return np.sin(np.pi * x[:, :1]) * np.sin(np.pi * x[:, 1:])

    def bratu(u: Any, x: Any) -> Any:
        v = tf.sin(np.pi * x[:, :1]) * tf.sin(np.pi * x[:, 1:])
        return laplacian(u, x) + tf.exp(u(x)) + 2 * np.pi**2 * v - tf.exp(v)

    problem = Problem(Box([0, 0], [1, 1]), bratu, conditions=[Dirichlet(exact)], exact=exact)
    result = solve(problem, tolerance=1e-6, progress=False)
    assert result.relative_l2_error <= 3 * result.error.relative <= 3e-6
