"""Residuals that are not pointwise, where several ranks share a model."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.errors import InputError
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
from sciml_par.training import Adam, Ensemble, LevenbergMarquardt, Points
from sciml_par.training.coupled_points import remarks_on_coupled_points
from sciml_par.training.objective import jacobians_of
from sciml_par.training.parameter_layout import ParameterLayout

SQUARE = Box([0.0, -1.0], [1.0, 2.0])
SMALL = partial(MLP, width=4, depth=2)


def _with_mean(u: Any, x: Any) -> Any:
    return laplacian(u, x) - tf.reduce_mean(u(x), axis=0, keepdims=True)


COUPLED = {
    "mean": (Problem(Interval(0, 1), _with_mean, conditions=[Dirichlet(0.0)]), "residual"),
    "small numbers": (Problem(Interval(0, 1), lambda u, x: 1e-9 * _with_mean(u, x)), "residual"),
    "largest": (Problem(Interval(0, 1), lambda u, x: u(x) - tf.reduce_max(u(x))), "residual"),
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
def test_residuals_that_couple_points_are_refused(case: str, dtype: str) -> None:
    problem, term = COUPLED[case]
    with pytest.raises(InputError, match=f"{term}' at a point depends on other points") as refused:
        _said(problem, dtype, ranks=3)
    assert "3 ranks" in str(refused.value) and "IntegralCondition" in str(refused.value)
    assert _said(problem, dtype, ranks=1) == []


@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_draw_random_numbers_are_told() -> None:
    def noisy(u: Any, x: Any) -> Any:
        return laplacian(u, x) - tf.random.normal(tf.shape(x))

    (said,) = _said(Problem(Interval(0, 1), noisy), "float32", ranks=2)
    assert "the residual 'residual' draws random numbers, new ones at every step" in said
    assert "Residual(..., data=...)" in said


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", POINTWISE)
@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_pointwise_residuals_are_not(case: str, dtype: str) -> None:
    assert _said(POINTWISE[case], dtype, ranks=3) == []


@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_count_their_points_are_told() -> None:
    counted = Problem(
        Interval(0, 1), lambda u, x: tf.sqrt(tf.cast(tf.shape(x)[0], x.dtype)) * laplacian(u, x)
    )
    (said,) = _said(counted, "float32", ranks=2)
    assert "depends on the number or the order of the points" in said


@pytest.mark.ranks(most=2, reason="one rank shares no model, and two do as more would")
@pytest.mark.parametrize("optimizer", [Adam(), LevenbergMarquardt()])
def test_coupled_points_are_refused_where_a_step_has_some_of_them(optimizer: Any) -> None:
    problem, _ = COUPLED["mean"]
    options: dict[str, Any] = {"network": SMALL, "steps": 2, "progress": False}
    options["optimizer"] = optimizer
    sp.train(problem, mode=Ensemble(ranks_per_member=1), points=20, **options)
    if sp.size() > 1:
        with pytest.raises(InputError, match=r"2 ranks .* IntegralCondition"):
            sp.train(problem, points=20, **options)
    if isinstance(optimizer, Adam):
        with pytest.raises(InputError, match=r"each batch .* IntegralCondition"):
            sp.train(
                problem,
                mode=Ensemble(ranks_per_member=1),
                points=Points(20, batch_size=5),
                **options,
            )
