"""`solve` by polynomials: on the box, in windows, what they leave to other methods, and results."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.assembly.asked import NotByJetsError
from sciml_par.assembly.solution import zero_jets
from sciml_par.errors import InputError, ResultWarning
from sciml_par.networks import Polynomials, RandomFeatures
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Interval,
    Problem,
    Residual,
    derivative,
    distance_to,
    impose_dirichlet,
    laplacian,
)
from sciml_par.results import Result
from sciml_par.training import LeastSquares
from sciml_par.training.solve import solve
from sciml_par.training.solving import polynomial_claims
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.ladder import _better
from sciml_par.training.solving.polynomial_error import error_of
from sciml_par.training.solving.polynomial_stage import PolynomialSolver
from sciml_par.training.solving.refinement import refined
from sciml_par.training.train import train

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

SQUARE = Box([0, 0], [1, 2])


def wave(x: Any) -> Any:
    return np.sin(3 * x[:, :1]) * np.cos(2 * x[:, 1:])


def source(x: Any) -> Any:
    return -13 * wave(x) + wave(x) ** 3


def reaction(**more: Any) -> tuple[Problem, list[int]]:
    """Δu + u³ = f, and how often its equation is called."""
    calls: list[int] = []

    def equation(u: Any, x: Any, f: Any) -> Any:
        calls.append(1)
        return laplacian(u, x) + u(x) ** 3 - f

    given = {"conditions": [Dirichlet(wave)], **more}
    return Problem(SQUARE, Residual(equation, data=source), exact=wave, **given), calls


def check(result: Result, tolerance: float) -> None:
    """The tolerance is met, the error is not claimed too small, and ranks have the same digits."""
    error = result.error
    assert result.relative_l2_error <= (1 + error.own_error) * error.relative
    assert error.relative <= tolerance
    (model,) = result.networks
    assert isinstance(model, Polynomials)
    digits = model.coefficients.numpy().tobytes(), error.relative
    assert len(set(sp.current_world().communicator.allgather_object(digits))) == 1


def test_a_smooth_solution(tmp_path: Any) -> None:
    problem, calls = reaction()
    result = solve(problem, tolerance=1e-8, progress=False)
    check(result, 1e-8)
    assert len(calls) < 76  # as often as random features called it
    member = result.members[0]
    assert member.validation_loss < 1e-8 * member.zero_loss
    assert member.misfits["dirichlet"] < 1e-6
    folder = sp.current_world().communicator.on_root(lambda: tmp_path / "result")
    result.save(folder)
    x = np.random.default_rng(0).uniform(size=(20, 2))
    again = Result.load(folder)
    np.testing.assert_array_equal(again.predict(x).mean, result.predict(x).mean)
    assert again.error.relative == result.error.relative

    def slope(u: Any, x: Any) -> Any:
        return derivative(u, x, 0)

    found = result.evaluate(slope, x)
    true = np.abs(found.mean - 3 * np.cos(3 * x[:, :1]) * np.cos(2 * x[:, 1:]))
    assert np.linalg.norm(true) < 3 * np.linalg.norm(found.error) < 1e-5


@two
def test_a_high_degree_does_not_oscillate_at_the_sides() -> None:
    """Between even points it did, and four times as many functions in windows took over."""

    def waves(x: Any) -> Any:
        return tf.sin(14 * x[:, :1] + 8.4 * x[:, 1:])

    problem = Problem(
        Box([0, 0], [1, 1]),
        lambda u, x: laplacian(u, x) + 1.36 * 14**2 * waves(x),
        conditions=[Dirichlet(waves)],
        exact=waves,
    )
    result = solve(problem, tolerance=1e-6, progress=False)
    check(result, 1e-6)
    assert len(result.networks[0].exponents) == 351


def test_a_layer_is_found_by_windows() -> None:
    def layer(x: Any) -> Any:
        return np.tanh((x - 0.3) / 0.01)

    def curvature(x: Any) -> Any:
        return -2e4 * layer(x) * (1 - layer(x) ** 2)

    problem = Problem(
        Interval(0, 1),
        Residual(lambda u, x, f: laplacian(u, x) - f, data=curvature),
        conditions=[Dirichlet(layer)],
        exact=layer,
    )
    result = solve(problem, tolerance=1e-6, progress=False)
    check(result, 1e-6)
    breaks = result.networks[0].cells.breaks[0]
    assert len(breaks) > 5
    assert abs(breaks[np.argmin(np.diff(breaks))] - 0.3) < 0.02


def test_an_ansatz() -> None:
    ansatz = impose_dirichlet(lambda x: 1 + x, distance_to(Interval(0, 1)))
    grows = Problem(
        Interval(0, 1),
        Residual(
            lambda u, x, f: laplacian(u, x) + u(x) * derivative(u, x, 0) - f,
            data=lambda x: np.log(2) ** 2 * 2**x + np.log(2) * 4**x,
        ),
        ansatz=ansatz,
        exact=lambda x: 2**x,
    )
    check(solve(grows, tolerance=1e-8, progress=False), 1e-8)


def test_fourth_order() -> None:
    """A beam on two supports."""
    beam = Problem(
        Interval(0, 2),
        Residual(
            lambda u, x, f: derivative(u, x, 0, 0, 0, 0) - f,
            data=lambda x: np.pi**4 * np.sin(np.pi * x),
        ),
        conditions=[Dirichlet(0.0), Condition(lambda u, x: derivative(u, x, 0, 0))],
        exact=lambda x: np.sin(np.pi * x),
    )
    check(solve(beam, tolerance=1e-8, progress=False), 1e-8)


CASES: dict[str, Any] = {
    "mean": (lambda u, x, f: laplacian(u, x) - tf.reduce_mean(u(x)) - f, "couples points"),
    "sum so far": (lambda u, x, f: laplacian(u, x) - tf.cumsum(u(x)) - f, "couples points"),
    "branch": (
        lambda u, x, f: laplacian(u, x) - f if tf.reduce_sum(u(x)) > 0 else derivative(u, x, 0) - f,
        "depend on u",
    ),
    "more calls at more points": (
        lambda u, x, f: sum(
            (0 * u(x + h) for h in range(1, len(x) // 10 + 2)), laplacian(u, x) - f
        ),
        "depend on the points",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_to_other_methods(name: str) -> None:
    equation, words = CASES[name]
    problem = Problem(SQUARE, Residual(equation, data=source), conditions=[Dirichlet(wave)])
    with pytest.raises(NotByJetsError, match=words):
        PointsOfTerms(problem, 0).scattered(20, draw=0)


def test_a_branch_that_the_probe_has_not_seen_is_refused_when_it_is_taken() -> None:
    """Both branches ask as often, so that the answers would be those of the other one."""

    def equation(u: Any, x: Any, f: Any) -> Any:
        usual = tf.reduce_sum(u(x)) > -1000
        return (laplacian(u, x) if usual else derivative(u, x, 0, 1)) - f

    problem = Problem(SQUARE, Residual(equation, data=source), conditions=[Dirichlet(wave)])
    equations = PointsOfTerms(problem, 0).scattered(20, draw=0)
    jets = zero_jets(equations)
    assert np.isfinite(equations.residuals(jets)[0]).all()
    for z in jets[0]:
        z -= 1000.0
    with pytest.raises(NotByJetsError, match="depend on u"):
        equations.residuals(jets)


def _by_numpy(u: Any, x: Any, f: Any) -> Any:
    return laplacian(u, x) * u(x) - np.sin(x.numpy()[:, :1]) - f


def wavy(x: Any) -> Any:
    """Graphs add this up in another order."""
    return tf.sin(x[:, :1]) * 3.0 * tf.cos(7.0 * x[:, 1:] / 3.0) * 0.7 / 1.3 + 0.1 + x[:, :1] + 0.2


@pytest.mark.parametrize("kind", ["of any size", "zero but for rounding", "in Python"])
def test_derivatives_that_are_asked_for_often_stay_the_same(kind: str) -> None:
    """They become a graph, unless a residual computes with values."""
    calls, in_python = [], kind == "in Python"

    def equation(u: Any, x: Any, f: Any) -> Any:
        calls.append(tf.executing_eagerly())
        return _by_numpy(u, x, f) if in_python else laplacian(u, x) * u(x) - wavy(x) - f

    problem = Problem(SQUARE, Residual(equation, data=source), conditions=[Dirichlet(wave)])
    points, rng = PointsOfTerms(problem, 0), np.random.default_rng(0)
    found = []
    for n in (20, 30):
        equations = points.scattered(n, draw=0)
        jets = zero_jets(equations)
        for z in (z for of_term in jets for z in of_term):
            z[...] = rng.normal(size=z.shape)
        if kind == "zero but for rounding":
            (x, f), (z,) = equations.rows[0].arrays, jets[0]
            z[3] = (f[:, 0] + wavy(x)[:, 0]) / z[0]
        found.append([equations.linearized(jets)[0] for _ in range(20)])
    for first, *_, last in found:
        np.testing.assert_allclose(last.residuals, first.residuals, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(last.by_jets[0], first.by_jets[0], rtol=1e-12)
    assert calls.count(True) > 40 if in_python else calls.count(True) < 22


def test_a_condition_on_a_small_part_has_points() -> None:
    """Few of the first points lie there, and none would leave the solution open."""
    small = Dirichlet(wave, where=lambda x: (x[:, 1] == 0) & (x[:, 0] < 0.01))
    problem = Problem(SQUARE, laplacian, conditions=[Dirichlet(wave), small])
    rows = PointsOfTerms(problem, 0).scattered(20, draw=0).rows
    assert rows[2].points >= 16
    assert rows[2].factors @ rows[2].factors == pytest.approx(1.0)


WIDTH, CENTRE = 1e-3, 0.312


def with_peak(x: Any) -> Any:
    """The second derivative of u = sin x + …, whose peak lies between the first points."""
    return -np.sin(x) + np.exp(-(((x - CENTRE) / WIDTH) ** 2)) / WIDTH


def test_a_peak_between_the_points_is_seen_and_its_cell_divided() -> None:
    conditions = [Dirichlet(np.sin)]
    problem = Problem(
        Interval(0, 1),
        Residual(lambda u, x, f: laplacian(u, x) - f, data=with_peak),
        conditions=conditions,
    )
    x = problem.domain.sample(50, seed=0)
    solver = PolynomialSolver(problem, 0, x, None, np.zeros(0), {})
    stage = solver.solve(solver.on_box(10), 10, None)
    assert stage is not None
    error = error_of(solver, stage, np.ones(50, bool), fall=10.0, most_operations=1e9)
    assert not error.known
    stage = solver.solve(solver.in_windows([np.linspace(0, 1, 5)], 12), 12, stage)
    assert stage is not None and stage.misses
    (breaks,), degree = refined(stage, smooth=True)
    assert degree == 12 and len(breaks) == 6
    assert 0.25 < np.setdiff1d(breaks, np.linspace(0, 1, 5)) < 0.5
    with pytest.warns(ResultWarning, match="at others"):
        smooth = train(
            problem,
            network=partial(RandomFeatures, features=10, seed=0),
            optimizer=LeastSquares(),
            points=20,
            precision="float64",
            progress=False,
        )
    mean_square = np.sqrt(np.pi / 2) / WIDTH
    assert solver.loss_everywhere(smooth.members[0]) == pytest.approx(mean_square, rel=0.1)


@pytest.mark.ranks(least=2, most=2, reason="one rank has no others")
def test_ranks_with_different_problems_are_refused() -> None:
    factor = 1.0 + sp.current_world().communicator.rank
    alike, _ = reaction()
    data = Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: factor * source(x))
    with pytest.raises(InputError, match="solve: the ranks differ in values of the data"):
        solve(Problem(SQUARE, data, conditions=[Dirichlet(wave)]), progress=False)
    inside = Residual(lambda u, x, f: laplacian(u, x) - factor * f, data=source)
    with pytest.raises(InputError, match="solve: the ranks differ in the computation"):
        solve(Problem(SQUARE, inside, conditions=[Dirichlet(wave)]), progress=False)
    with pytest.raises(InputError, match="solve: the ranks differ in start"):
        solve(alike, start=factor, progress=False)


def test_a_variable_in_a_residual_is_refused() -> None:
    factor = tf.Variable(1.0, dtype=tf.float64)
    inside = Residual(lambda u, x, f: laplacian(u, x) - factor * f, data=source)
    with pytest.raises(InputError, match="variable"):
        solve(Problem(SQUARE, inside, conditions=[Dirichlet(wave)]), progress=False)


@two
def test_no_other_method_begins_when_time_is_up() -> None:
    problem, _ = reaction()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(problem, tolerance=1e-9, seconds=1e-3, progress=False)
    told = [str(each.message) for each in caught if each.category is ResultWarning]
    first = sp.current_world().communicator.rank == 0
    assert [text.endswith("time is up.") for text in told] == [True] * first
    assert isinstance(result.networks[0], Polynomials)
    assert "no time" in result.error.reason


def test_a_known_error_of_the_size_of_u_is_no_better_than_an_unknown_one() -> None:
    def of(relative: float, loss: float) -> Any:
        error = SimpleNamespace(relative=relative, known=np.isfinite(relative))
        return SimpleNamespace(error=error, members=[SimpleNamespace(validation_loss=loss)])

    assert not _better(of(3.6, 2.0), of(np.nan, 1e-6))
    assert _better(of(1e-3, 2.0), of(np.nan, 1e-6))
    assert not _better(of(np.nan, 1e-6), of(1e-3, 2.0))
    assert _better(of(1e-3, 2.0), of(3.6, 1e-6))


def test_what_a_residual_raises_is_said_where_other_methods_go_on() -> None:
    calls = []

    def equation(u: Any, x: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise ValueError("the furnace is full")
        return laplacian(u, x) + tf.sin(x)

    problem = Problem(Interval(0, 1), equation, conditions=[Dirichlet(np.sin)], exact=np.sin)
    with pytest.warns(ResultWarning, match="ended by ValueError: the furnace is full"):
        result = solve(problem, progress=False)
    assert result.relative_l2_error < 1e-6


def layered(steep: float) -> Problem:
    def layer(x: Any) -> Any:
        return np.tanh(steep * (x[:, :1] - 0.3 * x[:, 1:] - 0.3))

    def curvature(x: Any) -> Any:
        return -2 * steep**2 * 1.09 * layer(x) * (1 - layer(x) ** 2)

    equation = Residual(lambda u, x, f: laplacian(u, x) - f, data=curvature)
    return Problem(Box([0, 0], [1, 1]), equation, conditions=[Dirichlet(layer)], exact=layer)


def test_windows_go_on_while_the_residual_falls_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although there is no time for an estimate that takes long, as on a slow machine."""
    monkeypatch.setattr(polynomial_claims, "TIMES_AS_LONG", 1e9)
    check(solve(layered(15.0), tolerance=1e-3, seconds=60, progress=False), 1e-3)


def test_steps_go_on_where_the_first_ones_gain_little() -> None:
    """Of arctan from 1.35 the first one ends at −1.28, where the loss is 0.8 of what it was."""
    problem = Problem(Interval(0, 1), lambda u, x: tf.atan(u(x) - x), conditions=[])
    result = solve(problem, start=1.85, tolerance=1e-6, progress=False)
    x = np.linspace(0, 1, 9)[:, None]
    np.testing.assert_allclose(result.predict(x).mean, x, atol=1e-6)
    assert result.error.relative < 1e-6


def test_products_of_all_coordinates_in_four_dimensions() -> None:
    """exp(−|x|²/2) has them; those of two, which are tried first, do not suffice."""

    def exact(x: Any) -> Any:
        return np.exp(-np.sum(x**2, axis=1, keepdims=True) / 2)

    def equation(u: Any, x: Any, f: Any) -> Any:
        return laplacian(u, x) + u(x) ** 2 - f

    def source(x: Any) -> Any:
        return (np.sum(x**2, axis=1, keepdims=True) - 4) * exact(x) + exact(x) ** 2

    residual = Residual(equation, data=source)
    problem = Problem(Box([0] * 4, [1] * 4), residual, conditions=[Dirichlet(exact)], exact=exact)
    result = solve(problem, tolerance=1e-4, progress=False)
    assert isinstance(result.networks[0], Polynomials)
    assert result.relative_l2_error <= 3 * result.error.relative <= 3e-4
