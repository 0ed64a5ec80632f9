"""Residuals that are not pointwise, where several ranks share a model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import ParameterLayout, make_feed, trace_terms
from trainings import prepared

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
from sciml_par.training.preparation.coupled_points import remarks_on_coupled_points

SQUARE = Box([0.0, -1.0], [1.0, 2.0])
NODES = np.linspace(0, 1, 20)[:, None].astype(np.float32)
SMALL = partial(MLP, width=4, depth=2)


def _with_mean(u: Any, x: Any) -> Any:
    return laplacian(u, x) - tf.reduce_mean(u(x), axis=0, keepdims=True)


COUPLED = {
    "mean": (Problem(Interval(0, 1), _with_mean, conditions=[Dirichlet(0.0)]), "residual"),
    "small numbers": (Problem(Interval(0, 1), lambda u, x: 1e-9 * _with_mean(u, x)), "residual"),
    "largest": (Problem(Interval(0, 1), lambda u, x: u(x) - tf.reduce_max(u(x))), "residual"),
    "rolled by two": (
        Problem(Interval(0, 1), lambda u, x: u(x) - tf.roll(u(x), 2, axis=0)),
        "residual",
    ),
    "where there are many": (
        Problem(Interval(0, 1), lambda u, x: u(x)[::-1] if x.shape[0] > 6 else u(x)),
        "residual",
    ),
    "where they are even": (
        Problem(Interval(0, 1), lambda u, x: u(x)[::-1] if x.shape[0] % 2 == 0 else u(x)),
        "residual",
    ),
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
    "nodes": Problem(
        Interval(0, 1),
        lambda u, x: (
            u(x) - tf.exp(-x * tf.constant(NODES.T, x.dtype)) @ u(tf.constant(NODES, x.dtype))
        ),
    ),
}


def _said(problem: Problem, dtype: str, *, ranks: int) -> list[str]:
    """What the first of so many ranks finds in its part of the points."""
    feed = make_feed(problem, Points(60, boundary=9), rank=0, size=ranks, seed=0, dtype=dtype)
    network = make_network(SMALL, problem.domain.dimension, problem.outputs, dtype=dtype)
    traced = trace_terms(problem, network, dtype=dtype, arrays=feed.arrays, rows=feed.totals)
    size = ParameterLayout.of(network.trainable_variables, problem.unknowns).size
    parameters = np.zeros(size, dtype)
    return remarks_on_coupled_points(problem.terms, traced, feed.arrays, parameters, ranks=ranks)


@pytest.mark.parametrize("case", COUPLED)
@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_couple_points_are_refused(case: str) -> None:
    problem, term = COUPLED[case]
    with pytest.raises(InputError, match=f"{term}' at a point depends on other points") as refused:
        _said(problem, "float32", ranks=3)
    assert "3 ranks" in str(refused.value) and "IntegralCondition" in str(refused.value)
    assert _said(problem, "float64", ranks=1) == []


@pytest.mark.ranks(most=1, reason="residuals are tried on each rank by itself")
def test_residuals_that_draw_random_numbers_are_told() -> None:
    def noisy(u: Any, x: Any) -> Any:
        return laplacian(u, x) - tf.random.normal(tf.shape(x))

    def noisy_once(u: Any, x: Any) -> Any:
        return laplacian(u, x) - np.random.normal(size=x.shape[1])  # noqa: NPY002

    for residual in (noisy, noisy_once):
        (said,) = _said(Problem(Interval(0, 1), residual), "float32", ranks=2)
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
def test_a_matrix_of_weights_is_refused_where_a_step_has_some_of_the_points() -> None:
    """Also where it has as many rows as a rank has points."""

    def ready(rows: int, points: Any, mode: Any) -> Any:
        weights = np.random.default_rng(0).uniform(size=(rows, rows))
        problem = Problem(
            Interval(0, 1), lambda u, x: laplacian(u, x) - tf.constant(weights, x.dtype) @ u(x)
        )
        return prepared(problem, points=points, mode=mode)

    alone = Ensemble(ranks_per_member=1)
    ready(20, 20, alone)
    with pytest.raises(InputError, match=r"all 20 points together only.* without batches"):
        ready(20, Points(20, batch_size=5), alone)
    if sp.size() > 1:
        with pytest.raises(InputError, match=r"all 20 points together only.* ranks_per_member=1"):
            ready(20, 20, "data")
        with pytest.raises(InputError, match=r"2 ranks .* IntegralCondition"):
            ready(10, 20, "data")


@pytest.mark.ranks(most=1, reason="a rank has batches as one alone has")
def test_arrays_for_all_points_are_refused_where_a_step_has_some_of_them() -> None:
    measured = np.ones([20, 1], np.float32)
    problem = Problem(Interval(0, 1), lambda u, x: u(x) - measured)
    with pytest.raises(
        InputError, match=r"all 20 points together only.* Residual\(..., data=...\)"
    ):
        sp.train(problem, points=Points(20, batch_size=5), network=SMALL, steps=2, progress=False)


@pytest.mark.ranks(most=1, reason="each rank runs them alike")
@pytest.mark.parametrize(
    "optimizer", [Adam(), LevenbergMarquardt()], ids=lambda o: type(o).__name__
)
def test_a_residual_runs_few_times_before_the_first_step(optimizer: Any) -> None:
    calls: list[int] = []

    def residual(u: Any, x: Any) -> Any:
        calls.append(x.shape[0])
        return laplacian(u, x) + tf.sin(3 * x)

    # The loop that is trained has the residual's operations once more, and those of Levenberg–
    # Marquardt once with derivatives and once without. Two more calls, at any values of u, show
    # whether each row depends on u at its own point alone, which is quicker than to try.
    problem = Problem(Interval(0, 1), residual)
    sp.train(problem, network=SMALL, points=20, steps=2, optimizer=optimizer, progress=False)
    before = [n for n in calls if n == 20]  # others are those of the loss at other points
    assert len(before) == (5 if isinstance(optimizer, LevenbergMarquardt) else 2)


@pytest.mark.ranks(most=2, reason="one rank shares no model, and two do as more would")
def test_coupled_points_are_refused_where_a_step_has_some_of_them() -> None:
    problem, _ = COUPLED["mean"]
    alone = Ensemble(ranks_per_member=1)
    prepared(problem, mode=alone, points=20)
    if sp.size() > 1:
        with pytest.raises(InputError, match=r"2 ranks .* IntegralCondition"):
            prepared(problem, points=20)
    with pytest.raises(InputError, match=r"each batch .* IntegralCondition"):
        prepared(problem, mode=alone, points=Points(20, batch_size=5))


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_an_integral_at_fixed_nodes_is_the_same_on_any_number_of_ranks() -> None:
    """u(x) = 1 + ∫ x s u(s) ds has u = 1 + 3x/4, also with as many nodes as points."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    s, w = (nodes[:, None] + 1) / 2, weights[:, None] / 2

    def residual(u: Any, x: Any) -> Any:
        return u(x) - 1 - (x * s.T) @ (tf.constant(w) * u(tf.constant(s)))

    result = sp.train(
        Problem(Interval(0, 1), residual),
        network=SMALL,
        points=40,
        steps=60,
        optimizer=LevenbergMarquardt(),
        precision="float64",
        progress=False,
    )
    x = np.linspace(0, 1, 5)[:, None]
    np.testing.assert_allclose(result.predict(x).mean, 1 + 0.75 * x, atol=1e-4)
