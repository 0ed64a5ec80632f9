"""A problem and a tolerance in, a solution and its error out."""

from __future__ import annotations

import numpy as np
import pytest

from sciml_par import rank, solve
from sciml_par.errors import InputError, ResultWarning
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Problem,
    derivative,
    laplacian,
    poisson,
    problem_by_name,
)


@pytest.mark.ranks(most=2, reason="more ranks show nothing else")
def test_a_tolerance_is_met_and_the_estimate_is_true(capsys: pytest.CaptureFixture[str]):
    result = solve(poisson(domain=Interval(0, 1)), tolerance=1e-8)
    true = result.members[0].prediction.relative_l2_error
    assert true <= result.error.relative <= 1e-8
    assert result.error.known
    lines = capsys.readouterr().out.splitlines()
    if rank() == 0:
        assert lines[0].split() == ["method", "size", "residual", "error", "time"]
        assert lines[-1].endswith("the tolerance is met")
    else:
        assert lines == []


@pytest.mark.long
@pytest.mark.ranks(most=2, reason="more ranks show nothing else")
def test_an_inverse_problem():
    result = solve(problem_by_name("inverse-diffusion"), tolerance=1e-5, progress=False)
    assert result.error.relative <= 1e-5
    assert abs(float(result.unknowns["D"].mean) - 0.1) < 1e-6


@pytest.mark.long
@pytest.mark.ranks(most=1, reason="more ranks show nothing else")
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
@pytest.mark.ranks(most=1, reason="more ranks show nothing else")
def test_a_tolerance_that_is_not_met_is_told():
    # A layer of width 1e-4, and hardly any time.
    problem = Problem(
        Interval(0, 1),
        lambda u, x: 1e-4 * derivative(u, x, 0, 0) + derivative(u, x, 0),
        conditions=[Dirichlet(lambda x: x)],
        exact=lambda x: (1 - np.exp(-x / 1e-4)) / (1 - np.exp(-1e4)),
    )
    with pytest.warns(ResultWarning, match="not met"):
        result = solve(problem, tolerance=1e-6, seconds=1.0, progress=False)
    true = result.members[0].prediction.relative_l2_error
    assert not result.error.known or result.error.relative > true / 3


@pytest.mark.long
@pytest.mark.ranks(most=1, reason="more ranks show nothing else")
def test_a_solution_that_is_not_determined_is_told():
    problem = Problem(
        Interval(0, 1), lambda u, x: laplacian(u, x) - 1.0, conditions=[Dirichlet(0.0, on="left")]
    )
    with pytest.warns(ResultWarning, match="do not determine the solution"):
        result = solve(problem, tolerance=1e-6, progress=False)
    assert not result.error.known


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"tolerance": 1e-17}, "float64"),
        ({"tolerance": 1e-6, "precision": "float32"}, "float64"),
        ({"precision": "half"}, "precision"),
        ({"seconds": 0}, "seconds"),
    ],
)
def test_what_cannot_be_asked_for(arguments, words):
    with pytest.raises(InputError, match=words):
        solve(poisson(), progress=False, **arguments)


def test_something_else_than_a_problem():
    with pytest.raises(InputError, match="Problem"):
        solve("poisson", progress=False)
