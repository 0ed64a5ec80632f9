"""A problem and a tolerance in, a solution and its error out."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from _programs import problem_named
from trainings import moving_front

from sciml_par import rank, solve
from sciml_par.errors import InputError, ResultWarning
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Initial,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Problem,
    Time,
    Unknown,
    derivative,
    laplacian,
    poisson,
    problem_by_name,
)
from sciml_par.training import Checkpoint
from sciml_par.training.solving import by_polynomials

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]


@pytest.mark.ranks(most=2, reason="more ranks show nothing else")
def test_a_tolerance_is_met_and_the_estimate_is_true(capsys: pytest.CaptureFixture[str]):
    result = solve(poisson(domain=Interval(0, 1)), tolerance=1e-8)
    true, error = result.members[0].prediction.relative_l2_error, result.error
    assert true <= (1 + error.own_error) * error.relative <= 1e-8
    assert result.error.known
    lines = capsys.readouterr().out.splitlines()
    if rank() == 0:
        assert lines[0].split() == ["method", "size", "residual", "error", "time"]
        assert lines[-1].endswith("the tolerance is met")
    else:
        assert lines == []


def test_an_error_is_at_least_that_of_rounding():
    """A constant is represented exactly; of u = 0 no relative error is defined."""
    constant = Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(1.0)])
    assert solve(constant, progress=False).error.relative >= np.finfo(np.float64).eps
    zero = Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(0.0)])
    with pytest.warns(ResultWarning, match="u = 0 satisfies the equation"):
        assert not solve(zero, progress=False).error.known


@pytest.mark.parametrize(
    "condition",
    [
        Observations([[1.0]], [-np.pi], operator=lambda u, x: derivative(u, x, 0)),
        Observations(
            [[0.5]], [np.cos(0.1 * np.pi)], operator=lambda u, x: (u(x - 0.1) + u(x + 0.1)) / 2
        ),
        Neumann(lambda u, x: 3 * u(x) - np.pi, on="right"),
        Neumann(lambda u, x: u(x) ** 4 - np.pi, on="right"),
    ],
    ids=["a flux", "a mean", "linear in u", "not linear in u"],
)
def test_observed_quantities_and_values_of_u(condition: Condition):
    problem = Problem(
        Interval(0, 1),
        lambda u, x: laplacian(u, x) + np.pi**2 * tf.sin(np.pi * x),
        conditions=[Dirichlet(0.0, on="left"), condition],
        exact=lambda x: np.sin(np.pi * x),
    )
    result = solve(problem, progress=False)
    assert result.members[0].prediction.relative_l2_error < 1e-6


@pytest.mark.long
def test_an_inverse_problem_with_noise(capsys: pytest.CaptureFixture[str]):
    """It ends where the numerical error no longer counts, which is no reason for a warning."""
    problem = problem_by_name("inverse-diffusion", noise=0.05, initial=True, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResultWarning)
        result = solve(problem, tolerance=1e-13, seconds=400)
    assert "numerical errors are at most 10% of what" in capsys.readouterr().out
    found = result.uncertainty()
    assert 0 < found.numerical[0] < 0.1 * found.deviations[0]
    assert 0.001 < found.deviations[0] < 0.005
    assert abs(found.values[0] - 0.1) < 3 * found.deviations[0]
    assert result.error.data_with_errors


@pytest.mark.long
def test_a_network_that_ends_after_the_time_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_polynomials, "climb_by_polynomials", lambda ladder: None)
    problem = problem_by_name("inverse-diffusion", noise=0.05, initial=True, seed=0)
    with pytest.warns(ResultWarning, match="no time was left to estimate it"):
        result = solve(problem, seconds=1.0, progress=False)
    assert not result.error.known


def test_the_error_of_a_layer_is_not_claimed_too_small():
    """With 300 features the residual falls by 225, and the error by less."""
    problem = Problem(
        Interval(0, 1),
        lambda u, x: 0.01 * derivative(u, x, 0, 0) + derivative(u, x, 0),
        conditions=[Dirichlet(lambda x: (1 - np.exp(-100 * x)) / (1 - np.exp(-100)))],
        exact=lambda x: (1 - np.exp(-100 * x)) / (1 - np.exp(-100)),
    )
    result = solve(problem, tolerance=1e-6, seconds=300, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert result.error.known
    assert true / 3 < result.error.relative < 30 * true


@pytest.mark.long
def test_a_corner_where_the_solution_is_singular():
    """By boundary values of another power than those of the corner."""

    def power(x):
        across, along = x[:, :1] + x[:, 1:], x[:, 1:] - x[:, :1]
        return np.hypot(x[:, :1], x[:, 1:]) ** 0.6 * np.cos(0.6 * np.arctan2(-across, along))

    shape = problem_named("l-shape").domain
    problem = Problem(shape, laplacian, conditions=[Dirichlet(power)], exact=power)
    result = solve(problem, tolerance=1e-4, seconds=400, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert true < 1e-4
    assert true / 2 < result.error.relative < 1e-4
    assert type(result.networks[0]).__name__ == "Polynomials"


@pytest.mark.long
def test_a_pressure_without_a_given_value_is_left_out_of_the_error():
    def stokes(u, x):
        p = {"component": "p"}
        momentum = [
            laplacian(u, x, component=name) - derivative(u, x, axis, **p)
            for name, axis in (("u", "x"), ("v", "y"))
        ]
        divergence = derivative(u, x, "x", component="u") + derivative(u, x, "y", component="v")
        return tf.concat([*momentum, divergence], axis=1)

    def channel(x):
        return np.concatenate([x[:, 1:] * (1 - x[:, 1:]), 0 * x[:, 1:]], axis=1)

    problem = Problem(
        Box([0, 0], [1, 1]),
        stokes,
        conditions=[Dirichlet(channel, component=("u", "v"))],
        outputs=("u", "v", "p"),
    )
    result = solve(problem, tolerance=1e-6, seconds=300, progress=False)
    error, x = result.error, np.array([[0.3, 0.4], [0.7, 0.2]])
    assert error.relative <= 1e-6
    assert error.undetermined == ("p",)
    np.testing.assert_array_equal(np.isnan(error.field(x)), [[False, False, True]] * 2)
    np.testing.assert_allclose(result.predict(x).mean[:, :2], channel(x), atol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["kovasznay", pytest.param("standing-wave", marks=pytest.mark.all)]
)
def test_stages_begin_with_the_solution_before(name: str):
    """From zeros, the first ends in another minimum, and the second needs minutes."""
    result = solve(problem_named(name), tolerance=1e-6, seconds=400, progress=False)
    true = result.members[0].on_own_domain.relative_l2_error
    assert result.error.relative <= 1e-6
    assert true / 3 < result.error.relative < 3 * true


@pytest.mark.long
def test_a_network_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(by_polynomials, "climb_by_polynomials", lambda ladder: None)
    options = {"tolerance": 1e-13, "progress": False}
    checkpoint = Checkpoint(tmp_path / "run")
    with pytest.raises(InputError, match="no checkpoint"):
        solve(moving_front(0.002), checkpoint=checkpoint, resume=True, **options)
    with pytest.warns(ResultWarning, match="not met"):
        first = solve(moving_front(0.002), checkpoint=checkpoint, seconds=20, **options)
    assert type(first.networks[0]).__name__ == "MLP"
    with pytest.raises(InputError, match="holds checkpoints"):
        solve(moving_front(0.002), checkpoint=checkpoint, **options)
    with pytest.warns(ResultWarning, match="not met"):
        second = solve(
            moving_front(0.002), checkpoint=checkpoint, seconds=20, resume=True, **options
        )
    assert second.members[0].steps > first.members[0].steps
    with pytest.raises(InputError, match="another training"):
        solve(moving_front(0.004), checkpoint=checkpoint, seconds=20, resume="auto", **options)


def test_u_is_not_zero_at_the_start_where_the_equation_is_singular_there():
    t = np.linspace(0, 1, 5)
    problem = Problem(
        Time(0, 1), lambda u, t: derivative(u, t, "t") + 1 / u(t), conditions=[Initial(2.0)]
    )
    result = solve(problem, tolerance=1e-6, progress=False)
    np.testing.assert_allclose(result.predict(t).mean[:, 0], np.sqrt(4 - 2 * t), rtol=1e-6)
    assert result.error.relative < 1e-6


def _energy_level(start: float) -> Problem:
    """u″/2 + E u = 0 in a well, with ∫ u² = 1: E = n² π² / 2."""
    return Problem(
        Interval(0, 1),
        lambda u, x, *, E: laplacian(u, x) / 2 + E * u(x),
        conditions=[Dirichlet(0.0), IntegralCondition(lambda u, x: u(x) ** 2, 1.0)],
        unknowns={"E": Unknown(start, lower=0)},
    )


def test_no_warning_of_numpy_where_slopes_are_infinite():
    """u′ = √u with u(0) = 0 has u = 0 as a solution, where ∂√u/∂u is infinite."""
    problem = Problem(
        Time(0, 2), lambda u, x: derivative(u, x, 0) - tf.sqrt(u(x)), conditions=[Initial(0.0)]
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(problem, tolerance=1e-3, seconds=5, progress=False)
    assert not result.error.known
    assert {warning.category for warning in caught} <= {ResultWarning}


def test_an_unknown_stays_near_its_start_until_u_suits_it():
    result = solve(_energy_level(18.0), tolerance=1e-6, progress=False)
    np.testing.assert_allclose(result.unknowns["E"].mean, 2 * np.pi**2, rtol=1e-6)
    assert result.error.relative < 1e-6


@pytest.mark.long
def test_an_unknown_that_has_left_its_start_is_told():
    with pytest.warns(ResultWarning, match="E has gone from its start 2 to 4.935"):
        solve(_energy_level(2.0), tolerance=1e-6, progress=False)


@pytest.mark.parametrize("start", [lambda x: -3 - x, pytest.param(-3.0, marks=pytest.mark.all)])
def test_start_chooses_among_solutions(start: Any) -> None:
    """u² = (2 + x)² has the solutions ±(2 + x)."""
    problem = Problem(Interval(0, 1), lambda u, x: u(x) ** 2 - (2 + x) ** 2)
    result = solve(problem, tolerance=1e-6, progress=False, start=start)
    np.testing.assert_allclose(result.predict([0.5]).mean, [[-2.5]], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"tolerance": 1e-17}, "float64"),
        ({"tolerance": 1e-6, "precision": "float32"}, "float64"),
        ({"precision": "half"}, "precision"),
        ({"seconds": 0}, "seconds"),
        ({"start": "zero"}, "expected start to be a number"),
        ({"start": float("nan")}, "start is not finite"),
    ],
)
def test_what_cannot_be_asked_for(arguments, words):
    with pytest.raises(InputError, match=words):
        solve(poisson(), progress=False, **arguments)


@pytest.mark.ranks(least=2, most=2, reason="they differ")
def test_another_tolerance_on_another_rank():
    with pytest.raises(InputError, match="same arguments on every rank"):
        solve(poisson(), tolerance=1e-3 if rank() else 1e-6, progress=False)


def test_something_else_than_a_problem():
    with pytest.raises(InputError, match="Problem"):
        solve("poisson", progress=False)


@pytest.mark.long
def test_no_method_replaces_a_better_solution(capsys: pytest.CaptureFixture[str]) -> None:
    """Time ends before polynomials are good enough for an estimate, and features are worse."""
    result = solve(problem_named("plate-hole"), tolerance=1e-9, seconds=4)
    lines = re.findall(r"^.*?(\d\.\de[+-]\d\d).* s$", capsys.readouterr().out, re.MULTILINE)
    loss = result.members[0].validation_loss
    assert result.error.known or np.sqrt(loss) <= 1.06 * min(map(float, lines))
