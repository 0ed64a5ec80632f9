"""What users type by habit or by mistake: the thing that was meant, or a sentence."""

from __future__ import annotations

import functools
import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Table

import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import (
    Ball,
    Box,
    Condition,
    Dirichlet,
    Initial,
    IntegralCondition,
    Interval,
    Neumann,
    Observations,
    Periodic,
    Problem,
    Residual,
    Robin,
    Unknown,
    derivative,
    divergence,
    gradient,
    laplacian,
)
from sciml_par.training import Adam, Ensemble, LevenbergMarquardt, Points

pytestmark = pytest.mark.long
table = Table()
X = np.linspace(0, 1, 5)[:, None]
solve = functools.partial(
    sp.train,
    network=functools.partial(MLP, width=8, depth=1),
    optimizer=LevenbergMarquardt(),
    steps=30,
    points=30,
    precision="float64",
    evaluation_points=20,
    progress=False,
)
UNIT = Interval(0, 1)
ENDS = [Dirichlet(0.0)]


def rod(residual: Any = None, **others: Any) -> Problem:
    arguments = {"conditions": ENDS} | others
    return Problem(UNIT, residual or (lambda u, x: laplacian(u, x) + 2), **arguments)


def solved(problem: Problem, **options: Any) -> Any:
    return solve(problem, **options).predict(X).mean, X * (1 - X)


# Arguments of other types than the documented ones


@table.gives(1e-4)
def numbers_of_numpy_everywhere() -> Any:
    return solved(
        rod(), steps=np.int64(40), points=np.int32(30), seed=np.int16(3), log_every=np.uint8(5)
    )


@table.gives(1e-4, or_says="steps")
def steps_in_scientific_notation() -> Any:
    return solved(rod(), steps=4e1)


@table.gives(1e-4, or_says="precision.*float64")
def precision_by_the_type_of_tensorflow() -> Any:
    return solved(rod(), precision=tf.float64)


@table.gives(1e-4, or_says="precision.*float64")
def precision_by_the_type_of_numpy() -> Any:
    return solved(rod(), precision=np.float64)


@table.says("precision.*float64")
def half_precision() -> Any:
    return solved(rod(), precision="float16")


@table.gives(1e-4)
def single_constants_in_a_training_of_double() -> Any:
    load = np.float32(2.0)
    at = tf.constant(1.0)  # float32, as TensorFlow makes it
    return solved(rod(lambda u, x: laplacian(u, x) + load * tf.cast(at, x.dtype)))


@table.gives(1e-4)
def data_of_integers() -> Any:
    return solved(
        rod(Residual(lambda u, x, f: laplacian(u, x) + f, data=lambda x: 2 + 0 * x.astype(int)))
    )


@table.gives(2e-3, or_says="dtype|float32|float64")
def a_constant_of_double_in_a_training_of_single() -> Any:
    load = tf.constant(2.0, tf.float64)
    return solved(rod(lambda u, x: laplacian(u, x) + load), precision="float32")


@table.gives(1e-3)
def optimizer_by_its_name_in_keras() -> Any:
    return solved(rod(), optimizer=keras.optimizers.Adam(1e-2), steps=3000)


@table.gives(1e-3, or_says="optimizer.*Adam")
def optimizer_as_a_word() -> Any:
    return solved(rod(), optimizer="adam", steps=30_000)


@table.says("Adam\\(")
def optimizer_as_a_class() -> Any:
    return solved(rod(), optimizer=Adam)


@table.says("optimizer|LevenbergMarquardt")
def optimizer_of_scipy() -> Any:
    return solved(rod(), optimizer="L-BFGS-B")


@table.says("steps")
def epochs_for_steps() -> Any:
    return solved(rod(), epochs=100)


@table.says("[Aa]dam\\(|optimizer")
def lr_as_an_argument_of_train() -> Any:
    return solved(rod(), lr=1e-3)


@table.says("callback|EarlyStopping|NoProgress")
def early_stopping_of_keras() -> Any:
    return solved(rod(), callbacks=[keras.callbacks.EarlyStopping(monitor="loss")])


@table.says("steps")
def no_steps_at_all() -> Any:
    return solved(rod(), steps=0)


@table.says("interior must be an integer of at least 1")
def negative_points() -> Any:
    return solved(rod(), points=-5)


@table.says("dirichlet|'residual'")
def a_weight_of_a_condition_that_there_is_not() -> Any:
    return solved(rod(), weights={"bc": 10.0})


@table.says("seed")
def a_seed_that_is_none() -> Any:
    return solved(rod(), seed=None)


# Domains


@table.says("lower|upper|order|<")
def an_interval_the_wrong_way_round() -> Any:
    return Interval(1, 0)


@table.says("finite|inf")
def an_interval_without_end() -> Any:
    return Interval(0, np.inf)


@table.says("'left'|left")
def a_face_that_there_is_not() -> Any:
    return solved(rod(conditions=[Dirichlet(0.0, on="north")]))


@table.says("no point|nowhere|points")
def a_where_that_is_true_nowhere() -> Any:
    return solved(rod(conditions=[Dirichlet(0.0, where=lambda x: x[:, 0] > 7)]))


@table.says("box|Box|Periodic")
def a_disk_that_is_periodic() -> Any:
    return solve(Problem(Ball([0, 0], 1), laplacian, conditions=[Periodic("x")]))


@table.says("time|t\\b|Time")
def an_initial_value_in_space_alone() -> Any:
    square = Box([0, 0], [1, 1])
    return solve(
        Problem(square, laplacian, conditions=[Initial(0.0), Dirichlet(1.0, on="left")]), steps=3
    )


@table.gives(1e-9, or_says="outside|domain")
def points_of_ones_own_outside_the_domain() -> Any:
    return solved(rod(), points=np.linspace(-3, 3, 41)[:, None])


@table.says("lie outside")
def observations_outside_the_domain() -> Any:
    return solved(rod(conditions=[*ENDS, Observations([[2.0]], [[0.0]])]))


@table.says("NaN|nan|finite")
def observations_with_a_gap() -> Any:
    return solved(rod(conditions=[*ENDS, Observations([[0.2], [0.5]], [[0.16], [np.nan]])]))


@table.says("2|rows|values")
def observations_of_two_lengths() -> Any:
    return solved(rod(conditions=[*ENDS, Observations([[0.2], [0.5]], [0.16])]))


# Residuals


@table.says("\\[n\\]|shape|column|0:1|\\[30, 30\\]|\\(30, 30\\)")
def a_column_that_lost_its_axis() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + 2 * x[:, 0]))


@table.says("\\[n|shape|column")
def a_residual_of_one_axis() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x)[:, 0] + 2))


@table.says("None|return")
def a_residual_that_forgets_to_return() -> Any:
    def residual(u: Any, x: Any) -> Any:
        laplacian(u, x) + 2

    return solved(rod(residual))


@table.gives(1e-4, or_says="list|sequence|tuple|concat")
def a_list_of_equations_as_in_deepxde() -> Any:
    return solved(rod(lambda u, x: [laplacian(u, x) + 2]))


@table.says("u, x|field|points")
def points_before_the_field_as_in_deepxde() -> Any:
    return solved(rod(lambda x, u: laplacian(u, x) + 2))


@table.says("laplacian\\(u, x\\)|field")
def an_operator_of_values() -> Any:
    return solved(rod(lambda u, x: laplacian(u(x), x) + 2))


@table.says("tf\\.|TensorFlow|data")
def numpy_in_a_residual() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + 2 * np.sin(x)))


@table.says("tf\\.|TensorFlow|data")
def math_in_a_residual() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + 2 * math.sin(x)))


@table.says("tf\\.where|if")
def an_if_over_points() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + (2 if x[0, 0] > 0.5 else 3)))


@table.says("finite|NaN|nan|inf")
def a_division_by_zero_at_the_centre() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + derivative(u, x, 0) / x + 4))


@table.says("random|draw")
def random_numbers_in_a_residual() -> Any:
    return solved(rod(lambda u, x: laplacian(u, x) + tf.random.normal(tf.shape(x), dtype=x.dtype)))


@table.says("trainable|Unknown|unknown")
def a_trainable_variable_in_a_residual() -> Any:
    k = tf.Variable(1.0, dtype=tf.float64)
    return solved(rod(lambda u, x: laplacian(u, x) + k))


@table.says("unknown|D")
def an_unknown_that_nobody_reads() -> Any:
    return solved(rod(unknowns={"D": Unknown(1.0)}))


@table.says("2|component|divergence")
def a_divergence_of_one_component() -> Any:
    return solve(
        Problem(Box([0, 0], [1, 1]), lambda u, x: divergence(u, x), conditions=ENDS), steps=3
    )


@table.says("component|outputs|one")
def a_gradient_of_two_components() -> Any:
    problem = Problem(Box([0, 0], [1, 1]), lambda u, x: gradient(u, x), conditions=ENDS, outputs=2)
    return solve(problem, steps=3)


@table.says("axis|coordinate|'x'|0")
def a_derivative_by_an_axis_too_many() -> Any:
    return solved(rod(lambda u, x: derivative(u, x, 1)))


@table.says("there is no component 'v'; there are u")
def a_component_that_there_is_not() -> Any:
    return solved(rod(lambda u, x: laplacian(u["v"], x)))


@table.says("twice|two conditions|same")
def a_condition_that_is_there_twice() -> Any:
    solve(rod(conditions=[Dirichlet(0.0), Dirichlet(0.0)]), steps=3)


@table.says("Condition")
def a_condition_that_is_a_tuple() -> Any:
    return solved(rod(conditions=[("left", 0.0), ("right", 0.0)]))


@table.says(r"Problem: too many positional arguments; it is called as Problem\(domain, residual")
def conditions_by_position() -> Any:
    return Problem(UNIT, lambda u, x: laplacian(u, x), [Dirichlet(0.0)])


@table.gives(1e-4)
def one_condition_without_a_list() -> Any:
    return solved(rod(conditions=Dirichlet(0.0)))


@table.says("alpha|beta|Robin")
def robin_as_in_deepxde() -> Any:
    return solve(rod(conditions=[Robin(lambda x, u: 1 - u)]))


@table.says("residual|Condition|shape|\\[")
def a_condition_that_gives_a_number() -> Any:
    return solved(rod(conditions=[*ENDS, Condition(lambda u, x: 0.0, on="left")]))


@table.gives(1e-4)
def an_integral_of_a_constant() -> Any:
    # ∫ u = 1/6 on (0, 1), u(0) = 0, u″ = −2
    ends = [Dirichlet(0.0, on="left"), IntegralCondition(lambda u, x: u(x), 1 / 6)]
    return solved(rod(conditions=ends))


@table.says("exact")
def an_exact_solution_of_another_shape() -> Any:
    return solved(rod(exact=lambda x: np.zeros((3, 1))))


@table.says("members")
def an_ensemble_of_no_members() -> Any:
    return solve(rod(), mode=Ensemble(members=0))


@table.says("seeds")
def seeds_for_fewer_members() -> Any:
    return solve(rod(), mode=Ensemble(members=4, seeds=[1, 2]))


@table.says("mode")
def a_mode_of_other_packages() -> Any:
    return solve(rod(), mode="ddp")


@table.says("outputs|component|column|2")
def two_values_for_one_component() -> Any:
    return solved(rod(conditions=[Dirichlet((0.0, 1.0))]))


@table.says("batch_size")
def a_batch_larger_than_all() -> Any:
    return solved(rod(), points=Points(20, batch_size=64))


@table.gives(1e-4)
def slopes_by_their_face() -> Any:
    return solved(rod(conditions=[Dirichlet(0, on="left"), Neumann(-1, on="right")]))


test_programs = table.as_test()
