"""Programs that look right: numbers that must not change with ranks, batches, files or types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_root, on_two
from setups import UNIT, X, rod, solve, solved

import sciml_par as sp
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Initial,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Polygon,
    Problem,
    Residual,
    Robin,
    Time,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.training import Adam, Ensemble, Points

pytestmark = pytest.mark.long
table = Table()


# What depends on all points at once


@table.gives(1e-4, on_two)
def data_divided_by_their_maximum() -> Any:
    equation = Residual(lambda u, x, f: derivative(u, x, 0) - f, data=lambda x: x / np.max(x))
    problem = rod(equation, conditions=[Dirichlet(0.0, on="left")])
    return solve(problem).predict(X).mean, X**2 / 2


@table.gives(1e-4, on_two)
def data_in_the_order_of_the_points() -> Any:
    at = np.random.default_rng(0).permutation(np.linspace(0, 1, 41))[:, None]
    measured = 2 * at
    equation = Residual(lambda u, x, f: derivative(u, x, 0) - f, data=lambda x: measured)
    problem = rod(equation, conditions=[Dirichlet(0.0, on="left")])
    return solve(problem, points=at).predict(X).mean, X**2


@table.gives(1e-3, on_two)
def boundary_values_divided_by_their_maximum() -> Any:
    square = Box([0, 0], [2, 1])
    sides = Dirichlet(lambda x: x[:, :1] / np.max(np.abs(x[:, :1])))
    found = solve(Problem(square, laplacian, conditions=[sides]), points=Points(60, boundary=60))
    at = np.array([[1.0, 0.5], [0.5, 0.5]])
    return found.predict(at).mean, at[:, :1] / 2


@table.says("the ansatz at a point depends on the other points")
def an_ansatz_that_subtracts_the_mean() -> Any:
    gauge = lambda N, x: N(x) - tf.reduce_mean(N(x))
    problem = rod(conditions=[Neumann(0.0)], ansatz=gauge)
    result = solve(problem)
    return result.predict(X).mean - result.predict(X[:2]).mean[:1]


@table.says("coupl|batch|points")
def a_layer_that_subtracts_the_mean_of_the_batch() -> Any:
    class Centred(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x - tf.reduce_mean(x, axis=0, keepdims=True)

    make = lambda: keras.Sequential(
        [keras.layers.Dense(8, "tanh"), Centred(), keras.layers.Dense(1)]
    )
    return solve(rod(), network=make)


# What NumPy and others hide in arrays


@table.says("1 of 9 are not, the first of them in row 2")
def observations_that_are_masked() -> Any:
    at = np.linspace(0.1, 0.9, 9)
    values = np.ma.masked_array(at * (1 - at), mask=[0, 0, 1, 0, 0, 0, 0, 0, 0])
    values.data[2] = 1e3  # a gap, as instruments write it
    return solved(rod(conditions=[Dirichlet(0.0), Observations(at, values)]))


@table.gives(0.0)
def points_to_predict_at_that_are_masked() -> Any:
    at = np.ma.masked_array(np.where(X == 0.5, 99.0, X), mask=X == 0.5)
    found = np.ma.filled(solve(rod()).predict(at).mean, np.nan)
    return np.isnan(found).ravel() * 1.0, [0.0, 0.0, 1.0, 0.0, 0.0]


@table.gives(1e-4, or_says="axis|-1")
def an_axis_counted_from_the_end() -> Any:
    problem = Problem(
        Interval(0, 1) * Time(0, 1),
        lambda u, x: derivative(u, x, -1) - x[:, :1],
        conditions=[Initial(0.0)],
    )
    at = np.array([[0.5, 1.0], [1.0, 0.5]])
    return solve(problem).predict(at).mean, at[:, :1] * at[:, 1:]


@table.gives(1e-4, or_says="component|-1")
def a_component_counted_from_the_end() -> Any:
    problem = Problem(
        UNIT,
        [lambda u, x: derivative(u[0], x, 0) - 1, lambda u, x: derivative(u[-1], x, 0) - 2],
        conditions=[Dirichlet((0.0, 0.0), on="left")],
        outputs=2,
    )
    return solve(problem).predict(X).mean, np.concatenate([X, 2 * X], axis=1)


@table.gives(1e-4, or_says="float32|float64|dtype")
def a_field_asked_at_points_of_single_precision() -> Any:
    at = tf.constant([[1.0]])
    return solved(rod(lambda u, x: laplacian(u, x) + 2 + 0 * u(at)))


# Functions that are not differentiable where points lie


@table.says("the loss (or its gradient )?is not finite")
def a_root_behind_a_where() -> Any:
    # The gradient of the branch that is not taken is infinite at u = 0.
    problem = rod(
        lambda u, x: derivative(u, x, 0) - tf.where(u(x) > 0, tf.sqrt(u(x)), tf.zeros_like(x)),
        conditions=[Dirichlet(1.0, on="left")],
    )
    return solve(problem, steps=80).predict(X).mean, (1 + X / 2) ** 2


# Callbacks and models that outlive a call


@table.says("a callback has changed weights of progress.networks")
def weights_that_a_callback_writes() -> Any:
    # As a Keras callback restores or clips weights.
    def reset(progress: Any) -> None:
        for variable in progress.networks()[0].trainable_variables:
            variable.assign(tf.zeros_like(variable))
        progress.stop("reset")

    solve(rod(), optimizer=Adam(1e-3), steps=2000, callbacks=[reset], keep="last")


@table.gives(1e-12, on_two)
def a_model_with_other_weights_on_each_rank() -> Any:
    keras.utils.set_random_seed(10 + sp.rank())
    model = keras.Sequential(
        [
            keras.Input([1], dtype="float64"),
            keras.layers.Dense(8, "tanh", dtype="float64"),
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    try:
        result = solve(rod(), network=model, optimizer=Adam(1e-2), steps=20)
    except sp.errors.InputError as error:
        assert sp.size() > 1 and "weights" in str(error)
        return None
    first = sp.parallel.broadcast(tf.constant(result.predict(X).mean), 0).numpy()
    return [(result.predict(X).mean, first), (np.asarray(model(X)), first)]


@table.gives(1e-9, on_two)
def the_error_that_is_reported() -> Any:
    result = solve(rod(exact=lambda x: x * (1 - x)), steps=3)
    found = result.members[0].prediction
    error = np.linalg.norm(found.u - found.x * (1 - found.x)) / np.linalg.norm(
        found.x * (1 - found.x)
    )
    return found.relative_l2_error, error


@table.gives(1e-9)
def the_error_of_a_solution_that_is_zero() -> Any:
    problem = Problem(UNIT, laplacian, conditions=[Dirichlet(0.0)], exact=lambda x: 0 * x)
    error = solve(problem, steps=3).members[0].prediction.relative_l2_error
    return float(error is None or np.isnan(error) or np.isinf(error)), 1.0


@table.gives(1e-12)
def the_unknown_that_is_last_in_the_history() -> Any:
    problem = rod(
        lambda u, x, *, load: laplacian(u, x) + 2 * load,
        conditions=[Dirichlet(0.0), Observations([[0.5]], [[0.75]])],
        unknowns={"load": Unknown(1.0)},
    )
    result = solve(problem, optimizer=Adam(1e-2), steps=50, log_every=7, keep="last")
    return np.ravel(result.history[0].unknowns["load"])[-1], result.unknowns["load"].mean


# Domains


@table.gives(5e-3, on_two)
def the_area_of_a_disk_as_a_condition() -> Any:
    # ∫ u = 2 fixes the constant of a field without slope
    disk = Ball([0.0, 0.0], 2.0)
    problem = Problem(
        disk,
        lambda u, x: laplacian(u, x),
        conditions=[Neumann(0.0), IntegralCondition(lambda u, x: u(x), 2.0)],
    )
    found = solve(problem, points=100).predict([[0.3, 0.1]]).mean
    return found, np.array([[2 / (4 * np.pi)]])


@table.gives(1e-3)
def a_triangle_with_slopes_by_their_normals() -> Any:
    triangle = Polygon([[0, 0], [2, 0], [0, 1]])
    slope = np.array([1.0, 2.0]) / np.sqrt(5)  # of the long side's normal
    problem = Problem(
        triangle,
        lambda u, x: laplacian(u, x) - 2,
        conditions=[
            Dirichlet(lambda x: x[:, :1] ** 2, on=["edge 1", "edge 3"]),
            Neumann(lambda x: 2 * x[:, :1] * slope[0], on="edge 2"),
        ],
    )
    at = np.array([[0.5, 0.3], [1.0, 0.2]])
    return solve(problem, points=100, steps=60).predict(at).mean, at[:, :1] ** 2


@table.gives(1e-3, or_says="what varies or is unknown is a value")
def a_coefficient_of_place_in_robin() -> Any:
    # u = x²: α u + β u′ at both ends, with functions for all three
    problem = rod(
        lambda u, x: laplacian(u, x) - 2,
        conditions=[
            Robin(
                lambda x: 1 + x, lambda x: 2 - x, lambda x: tf.where(x > 0.5, 4.0 + 0 * x, 0.0 * x)
            )
        ],
    )
    return solve(problem).predict(X).mean, X**2


@table.gives(1e-3)
def four_coordinates() -> Any:
    box = Box([0] * 4, [1] * 4)
    exact = lambda x: x[:, :1] * x[:, 1:2] - x[:, 2:3] + x[:, 3:]
    at = np.array([[0.5, 0.5, 0.5, 0.5], [0.2, 0.4, 0.6, 0.8]])
    problem = Problem(box, laplacian, conditions=[Dirichlet(exact)])
    return solve(problem, points=200).predict(at).mean, exact(at)


@table.gives(1e-10)
def another_order_of_the_same_members(folder: Path) -> Any:
    problems = [rod(lambda u, x, k=k: laplacian(u, x) + 2 * k) for k in (1.0, 1e-3)]
    one = solve(problems[0], mode=Ensemble(members=2, problems=problems, seeds=[1, 2]))
    two = solve(problems[0], mode=Ensemble(members=2, problems=problems[::-1], seeds=[2, 1]))
    return on_root(lambda: (two.predict(X).members[::-1], one.predict(X).members))


CONDITIONS = [
    (
        "boundary values that are masked",
        "finite|nan",
        lambda: [Dirichlet(lambda x: np.ma.masked_less(x, 0.5))],
    ),
    ("complex boundary values", "complex|real", lambda: [Dirichlet(lambda x: np.exp(1j * x))]),
    (
        "a where that gives indices",
        "bool",
        lambda: [Dirichlet(0.0, where=lambda x: np.nonzero(x[:, 0] == 0)[0])],
    ),
    ("a weight for each point", "weight", lambda: [Dirichlet(0.0, weight=np.ones(2))]),
]

for name, words, conditions in CONDITIONS:
    table.add(Row(name, lambda c=conditions: solved(rod(conditions=c())), says=words))


table.add(
    Row(
        "an exponential that overflows",
        lambda: solved(
            rod(lambda u, x: laplacian(u, x) + tf.exp(1e3 * (u(x) + 1))), precision="float32"
        ),
        says="finite|NaN|inf|overflow",
    )
)

test_programs = table.as_test()
