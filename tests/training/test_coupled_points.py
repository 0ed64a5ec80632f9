"""Residuals that are not pointwise, where several ranks share a model."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.networks import MLP, make_network
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    IntegralCondition,
    Interval,
    Neumann,
    Problem,
    Residual,
    Time,
    Unknown,
    biharmonic,
    derivative,
    laplacian,
)
from sciml_par.training import Ensemble
from sciml_par.training.coupled_points import remarks_on_coupled_points
from sciml_par.training.objective import jacobians_of
from sciml_par.training.parameter_layout import ParameterLayout

SQUARE = Box([0.0, -1.0], [1.0, 2.0])
SMALL = partial(MLP, width=4, depth=2)


def _with_mean(u: Any, x: Any) -> Any:
    return laplacian(u, x) - tf.reduce_mean(u(x), axis=0, keepdims=True)


COUPLED = {
    "mean": (Problem(Interval(0, 1), _with_mean, conditions=[Dirichlet(0.0)]), "residual"),
    "mean, unknown": (
        Problem(
            Interval(0, 1),
            [
                Residual(lambda u, x, *, k: k * laplacian(u, x), name="pointwise"),
                Residual(lambda u, x, *, k: k * _with_mean(u, x), name="coupled"),
            ],
            unknowns={"k": Unknown(2.0, lower=1)},
        ),
        "coupled",
    ),
}
POINTWISE = {
    "disk": Problem(
        Ball([0.0, 0.0], 1.0),
        lambda u, x: laplacian(u, x) - u(x) ** 2,
        conditions=[Neumann(0.5), IntegralCondition(lambda u, x: u(x), 1.0)],
    ),
    "third order": Problem(
        Interval(-1, 1) * Time(0, 1),
        lambda u, x: derivative(u, x, "t") + u(x) * derivative(u, x, "x", "x", "x"),
        conditions=[IntegralCondition(lambda u, x: u(x), 0.0, at=("t", [0.1, 0.7]))],
    ),
    "fourth order": Problem(SQUARE, lambda u, x: biharmonic(u, x) - u(x), input_scaling=True),
    "two places": Problem(Interval(0, 1), lambda u, x: laplacian(u, x) + u(1 - x) * u(x)),
    "measured values": Problem(
        Interval(0, 1), lambda u, x: u(x) - tf.ones([64, 1], x.dtype), name="rows are counted"
    ),
}


def _said(problem: Problem, dtype: str, *, ranks: int) -> list[str]:
    network = make_network(SMALL, problem.domain.dimension, problem.outputs, dtype=dtype)
    layout = ParameterLayout.of(network.trainable_variables, problem.unknowns)
    return remarks_on_coupled_points(jacobians_of(problem, network, layout), dtype, ranks=ranks)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", COUPLED)
@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_couple_points_are_told(case: str, dtype: str) -> None:
    problem, term = COUPLED[case]
    (said,) = _said(problem, dtype, ranks=3)
    assert f"the residual {term!r} at a point depends on other points" in said
    assert "3 ranks" in said and "IntegralCondition" in said
    assert _said(problem, dtype, ranks=1) == []


@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_draw_random_numbers_are_told() -> None:
    def noisy(u: Any, x: Any) -> Any:
        return laplacian(u, x) - tf.random.normal(tf.shape(x))

    (said,) = _said(Problem(Interval(0, 1), noisy), "float32", ranks=2)
    assert "the residual 'residual' draws random numbers: each of the 2 ranks draws its own" in said
    assert "Residual(..., data=...)" in said


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", POINTWISE)
@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_pointwise_residuals_are_not(case: str, dtype: str) -> None:
    assert _said(POINTWISE[case], dtype, ranks=3) == []


@pytest.mark.ranks(most=2, reason="one rank shares no model, and two do as more would")
def test_the_warning_comes_once_and_only_where_ranks_share_a_model(
    recwarn: pytest.WarningsRecorder,
) -> None:
    problem, _ = COUPLED["mean"]
    options: dict[str, Any] = {"network": SMALL, "points": 20, "steps": 2, "progress": False}
    sp.train(problem, mode=Ensemble(ranks_per_member=1), **options)
    assert not [w for w in recwarn if "depends on other points" in str(w.message)]
    sp.train(problem, **options)
    said = [w for w in recwarn if "depends on other points" in str(w.message)]
    assert len(said) == (1 if sp.size() > 1 and sp.rank() == 0 else 0)
