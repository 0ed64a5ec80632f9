"""`solve` slab after slab of time, and the points and cells that it stands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from _programs import problem_named
from scipy.integrate import solve_ivp
from trainings import moving_front

from sciml_par.assembly.asked import Request
from sciml_par.assembly.columns import jets_of
from sciml_par.assembly.solution import Solution
from sciml_par.networks import Polynomials
from sciml_par.networks.propagation.cells import Cells, Slabs
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Periodic,
    Polygon,
    Problem,
    Time,
    derivative,
    laplacian,
    problem_by_name,
)
from sciml_par.training import LeastSquares, Result, solve
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.polynomial_march import March

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")


def _predators(t: float, y: Any) -> Any:
    return np.array([1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]])


def _equation(w: Any, t: Any) -> Any:
    x, y = w(t)[:, :1], w(t)[:, 1:]
    rates = [1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y]
    return derivative(w, t, "t") - tf.concat(rates, axis=1)


def test_an_error_is_known_where_no_residual_is_at_zero() -> None:
    """Speed and mass of a rocket, of which 1 % is left."""

    def equation(y: Any, t: Any) -> Any:
        thrust = 5 / y(t)[:, 1:]
        return derivative(y, t, "t") - tf.concat([thrust, 0 * thrust - 0.198], axis=1)

    problem = Problem(Time(0, 5), equation, conditions=[Initial((0.0, 1.0))], outputs=("v", "m"))
    result, t = solve(problem, tolerance=1e-6, progress=False), np.linspace(0, 5, 300)[:, None]
    assert isinstance(result.networks[0].cells, Slabs)
    mass = 1 - 0.198 * t
    exact = np.hstack([-5 / 0.198 * np.log(mass), mass])
    true = np.linalg.norm(result.predict(t).mean - exact) / np.linalg.norm(exact)
    assert true <= 3 * result.error.relative < 1e-5


@pytest.mark.ranks(most=2, reason="more ranks show nothing else")
def test_predators_over_some_periods(tmp_path: Path) -> None:
    problem = Problem(Time(0, 30), _equation, conditions=[Initial((10.0, 5.0))], outputs=("x", "y"))
    result = solve(problem, tolerance=1e-6, progress=False)
    assert isinstance(result.networks[0].cells, Slabs)
    t = np.linspace(0, 30, 301)
    true = solve_ivp(_predators, (0, 30), [10, 5], "DOP853", t, rtol=1e-12, atol=1e-12).y.T
    error = np.linalg.norm(result.predict(t).mean - true) / np.linalg.norm(true)
    assert error < 1e-6 and error / 3 < result.error.relative < 3 * error
    found = result.save(tmp_path / "predators")
    again = Result.load(found, problem=problem)
    np.testing.assert_allclose(again.predict(t).mean, result.predict(t).mean, rtol=1e-12)


def test_an_epidemic_from_one_case_in_a_thousand() -> None:
    """Its linearized equation amplifies errors: a small residual says little."""

    def infection(w: Any, t: Any) -> Any:
        s, e, i = (w(t)[:, k : k + 1] for k in range(3))
        rates = [-0.25 * s * i, 0.25 * s * i - 0.2 * e, 0.2 * e - 0.1 * i]
        return derivative(w, t, "t") - tf.concat(rates, axis=1)

    start = Initial((0.999, 0.001, 0.0))
    problem = Problem(Time(0, 250), infection, conditions=[start], outputs=("S", "E", "I"))
    result = solve(problem, tolerance=1e-6, progress=False)
    assert result.error.relative < 1e-6
    np.testing.assert_allclose(result.predict([250.0]).mean[0, 0], 0.107225, rtol=1e-5)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_a_reactor_beside_an_unstable_equilibrium(tolerance: float) -> None:
    """u = start leaves a residual near rounding for long (Seborg et al. 2011, Example 2.5)."""

    def rates(c: Any, T: Any, m: Any) -> list[Any]:  # noqa: N803
        rate = 7.2e10 * m.exp(-8750 / T) * c
        return [1 - c - rate, 350 - T + 209.2 * rate + 2.092 * (300 - T)]

    def equation(u: Any, t: Any) -> Any:
        c, temperature = u(t)[:, :1], u(t)[:, 1:]
        return derivative(u, t, "t") - tf.concat(rates(c, temperature, tf), axis=1)

    start = [0.5, 350.0]
    problem = Problem(Time(0, 10), equation, conditions=[Initial(start)], outputs=("c", "T"))
    result = solve(problem, tolerance=tolerance, progress=False)
    t = np.linspace(0, 10, 101)
    options = {"t_eval": t, "rtol": 1e-12, "atol": 1e-10}
    true = solve_ivp(lambda _, y: rates(*y, np), (0, 10), start, "DOP853", **options).y.T
    assert np.linalg.norm(result.predict(t).mean - true) < tolerance * np.linalg.norm(true)
    assert result.error.relative < tolerance


def _growing(u: Any, x: Any) -> Any:
    """u_t = 0.1 u_xx + 20 (u − v) + v_t − 0.1 v_xx, of which v is a solution."""
    v = tf.sin(np.pi * x[:, :1]) * tf.cos(2 * x[:, 1:])
    v_t = -2 * tf.sin(np.pi * x[:, :1]) * tf.sin(2 * x[:, 1:])
    of_v = v_t + (0.1 * np.pi**2 - 20) * v
    return derivative(u, x, "t") - 0.1 * derivative(u, x, 0, 0) - 20 * u(x) - of_v


def _growing_alone(u: Any, t: Any) -> Any:
    return derivative(u, t, 0) - 22 * (u(t) - tf.cos(2 * t)) + 2 * tf.sin(2 * t)


@pytest.mark.ranks(most=2, reason="more ranks show nothing else")
@pytest.mark.parametrize("in_space", [False, True])
def test_small_errors_that_grow_in_time(in_space: bool) -> None:
    """10⁻¹⁰ at the begin is 10⁻² at the end; no space over all times tells it from nothing."""
    offset, rate = 1e-10, 20 - 0.1 * np.pi**2 if in_space else 22.0

    def exact(x: Any) -> Any:
        grown = np.cos(2 * x[:, -1:]) + offset * np.exp(rate * x[:, -1:])
        return grown * np.sin(np.pi * x[:, :1]) if in_space else grown

    begin = Initial(1.0 + offset)
    problem = Problem(Time(0, 1), _growing_alone, conditions=[begin], exact=exact)
    if in_space:
        sides = Dirichlet(0.0, on=["left", "right"])
        begin = Initial(lambda x: (1 + offset) * np.sin(np.pi * x[:, :1]))
        domain = Interval(0, 1) * Time(0, 1)
        problem = Problem(domain, _growing, conditions=[begin, sides], exact=exact)
    result = solve(problem, tolerance=1e-4, progress=False)
    assert result.relative_l2_error <= 3 * result.error.relative <= 3e-4


def _robertson(t: float, y: Any) -> Any:
    a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [b - a, a - b - c, c]


def test_a_stiff_reaction_whose_components_differ_by_five_orders() -> None:
    """Its residual says little of a step, since one equation is 1e9 times the size of others."""

    def equation(u: Any, t: Any) -> Any:
        y = [u(t)[:, k : k + 1] for k in range(3)]
        return derivative(u, t, "t") - tf.concat(_robertson(0.0, y), axis=1)

    start = [1.0, 0.0, 0.0]
    problem = Problem(Time(0, 1e3), equation, conditions=[Initial(start)], outputs=3)
    result = solve(problem, tolerance=1e-6, progress=False)
    t = np.linspace(0, 1e3, 301)
    true = solve_ivp(_robertson, (0, 1e3), start, "Radau", t, rtol=1e-11, atol=1e-16).y.T
    error = np.linalg.norm(result.predict(t).mean - true, axis=0) / np.linalg.norm(true, axis=0)
    assert error.max() < 1e-6 and result.error.relative < 1e-6


@pytest.mark.parametrize("hurries", [True, False])
def test_a_march_that_is_late_goes_on_with_a_larger_error(hurries: bool) -> None:
    """Other methods would rarely come as near; without any time it ends."""
    problem = ProblemChanges(None, [LeastSquares()]).weigh(moving_front(0.05))
    target = 1e-9 if hurries else 1e-4
    march = March(problem, 0, target, lambda: 1e-3, 1, lambda x: np.zeros((len(x), 1)), {})
    if hurries:
        march.left = lambda: 1e-3 if march.target < 1e-5 else 1e9
    march.run()
    assert march.loosened and march.ended == hurries
    if hurries:
        model, _ = march.joined()
        x = problem.domain.sample(500, seed=0)
        error = Solution.of(problem, model)(x) - problem.exact(x)
        assert np.abs(error).max() < 1e-3


def test_a_front_that_windows_follow_in_slabs() -> None:
    problem = moving_front(0.005, 0.2)
    result = solve(problem, tolerance=1e-4, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert true < 1e-4 and true / 3 < result.error.relative < 1e-4
    cells = result.networks[0].cells
    assert isinstance(cells, Slabs)
    breaks = cells.parts[0].breaks[0]
    finest = np.diff(breaks).min()
    at_front = np.searchsorted(breaks, 0.26) - 1
    assert np.diff(breaks)[at_front] == finest < 0.1


@pytest.mark.long
def test_burgers_with_initial_values_in_an_ansatz() -> None:
    problem = problem_by_name("burgers")
    result = solve(problem, tolerance=1e-5, seconds=400, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert true < 1e-5 and true / 3 < result.error.relative < 1e-5


@pytest.mark.long
def test_a_plate_with_a_hole_is_right_in_cut_cells() -> None:
    result = solve(problem_named("plate-hole"), tolerance=1e-5, seconds=300, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert true < 1e-5 and true / 3 < result.error.relative < 1e-5


def test_a_condition_has_points_on_every_face_of_every_cell() -> None:
    problem = Problem(Box([0, 0], [1, 1]), laplacian, conditions=[Dirichlet(1.0, weight=1.0)])
    breaks = (0.0, 1e-6, 0.5, 1.0)  # a cell that hardly any drawn point would hit
    rows = PointsOfTerms(problem, 0).in_cells(Cells((breaks, breaks)), (6, 6)).rows[1]
    x, shares = rows.arrays[0].numpy(), rows.factors**2
    for axis in (0, 1):
        for side in (0.0, 1.0):
            on_face = np.abs(x[:, axis] - side) < 1e-12
            counts = np.histogram(x[on_face, 1 - axis], breaks)[0]
            assert counts.min() >= 10
    # Two of four faces times 1e-6, over the size of the cell in relation to the largest one.
    corner = shares[(x <= 1e-6).all(axis=1)].sum()
    np.testing.assert_allclose(corner, (2e-6 / 4) / 2e-6, rtol=1e-2)


def test_ends_of_a_face_have_no_more_points_than_its_middle() -> None:
    """A point beyond the end of an edge is nearest to the end, which is not where it belongs."""
    corner = Polygon([[0, 0], [0, -1], [-1, -1], [-1, 1], [1, 1], [1, 0]])
    problem = Problem(corner, laplacian, conditions=[Dirichlet(1.0)])
    breaks = (-1.0, -0.5, 0.0, 0.5, 1.0)
    rows = PointsOfTerms(problem, 0).in_cells(Cells((breaks, breaks)), (6, 6)).rows[1]
    x = rows.arrays[0].numpy()
    assert not (np.linalg.norm(x, axis=1) < 1e-9).any()


def test_slabs_are_the_polynomials_of_each_part() -> None:
    rng = np.random.default_rng(0)
    slabs = [
        ([[0, 0.3, 1], [0, 0.4]], []),
        ([[0, 1], [0.4, 0.7]], []),
        ([[0, 0.2, 0.5, 1], [0.7, 1]], [1]),
    ]
    model = Polynomials(2, 1, degree=3, slabs=slabs)
    c = rng.normal(size=model.coefficients.shape)
    model.coefficients.assign(c)
    x = rng.uniform(0, 1, (200, 2))
    x[:2, 1] = 0.4, 0.7  # the earlier slab answers
    values, first = model(tf.constant(x)).numpy()[:, 0], 0
    for breaks, dropped in slabs:
        part = Polynomials(2, 1, degree=3, breaks=breaks, dropped=dropped)
        count = len(part.cells.kept)
        own = jets_of(part, c[first : first + count], Request(x))[0, 0]
        inside = (x[:, 1] > breaks[1][0]) & (x[:, 1] <= breaks[1][1])
        np.testing.assert_allclose(values[inside], own[inside], rtol=1e-12, atol=1e-12)
        first += count
    assert first == len(c)
    again = Polynomials.from_config(model.get_config())
    assert again.cells == model.cells


def test_periodic_dispersion_of_third_order() -> None:
    """u_t + u_xxx = 0 in windows, whose first and last ones are neighbours."""

    def exact(x: Any) -> Any:
        waves = [np.sin(k * (x[:, :1] + k**2 * x[:, 1:])) for k in (1, 8)]
        return waves[0] + waves[1] / 2

    problem = Problem(
        Interval(0, 2 * np.pi) * Time(0, 0.01),
        lambda u, x: derivative(u, x, "t") + derivative(u, x, 0, 0, 0),
        conditions=[Initial(exact), Periodic(0, order=(0, 1, 2))],
    )
    result = solve(problem, tolerance=1e-4, progress=False)
    x = np.random.default_rng(3).uniform(size=(500, 2)) * [2 * np.pi, 0.01]
    error = np.linalg.norm(result.predict(x).mean - exact(x)) / np.linalg.norm(exact(x))
    assert isinstance(result.networks[0].cells, Slabs)
    assert error < 1e-4 and result.error.relative < 1e-4 and error < 3 * result.error.relative


def test_a_condition_on_a_hundredth_of_a_face() -> None:
    """None of the points at which conditions are compared may lie there."""
    small = lambda x: abs(x[:, 0] - 0.16) < 0.005  # noqa: E731
    problem = Problem(
        Box([0, 0], [1, 1]),
        laplacian,
        conditions=[
            Dirichlet(1.0, on="y=lower", where=small, name="heated"),
            Dirichlet(1.0, on="y=lower", where=lambda x: ~small(x), name="bottom"),
            Dirichlet(1.0, on=("x=lower", "x=upper", "y=upper"), name="other sides"),
        ],
    )
    result = solve(problem, tolerance=1e-6, progress=False)
    np.testing.assert_allclose(result.predict([[0.3, 0.4]]).mean, 1.0, atol=1e-6)
