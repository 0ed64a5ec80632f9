"""What users type by habit or by mistake: the thing that was meant, or a sentence."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table
from setups import UNIT, rod, solve, solved

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
from sciml_par.training import Adam, Ensemble, Points

pytestmark = pytest.mark.long
table = Table()
ENDS = [Dirichlet(0.0)]


# Arguments of other types than the documented ones


@table.gives(1e-4)
def single_constants_in_a_training_of_double() -> Any:
    load = np.float32(2.0)
    at = tf.constant(1.0)  # float32, as TensorFlow makes it
    return solved(rod(lambda u, x: laplacian(u, x) + load * tf.cast(at, x.dtype)))


@table.gives(2e-3, or_says="dtype|float32|float64")
def a_constant_of_double_in_a_training_of_single() -> Any:
    load = tf.constant(2.0, tf.float64)
    return solved(rod(lambda u, x: laplacian(u, x) + load), precision="float32")


# Domains


@table.says("time|t\\b|Time")
def an_initial_value_in_space_alone() -> Any:
    square = Box([0, 0], [1, 1])
    return solve(
        Problem(square, laplacian, conditions=[Initial(0.0), Dirichlet(1.0, on="left")]), steps=3
    )


# Residuals


@table.says("None|return")
def a_residual_that_forgets_to_return() -> Any:
    def residual(u: Any, x: Any) -> Any:
        laplacian(u, x) + 2

    return solved(rod(residual))


@table.says("trainable|Unknown|unknown")
def a_trainable_variable_in_a_residual() -> Any:
    k = tf.Variable(1.0, dtype=tf.float64)
    return solved(rod(lambda u, x: laplacian(u, x) + k))


@table.says("component|outputs|one")
def a_gradient_of_two_components() -> Any:
    problem = Problem(Box([0, 0], [1, 1]), lambda u, x: gradient(u, x), conditions=ENDS, outputs=2)
    return solve(problem, steps=3)


@table.gives(1e-4)
def an_integral_of_a_constant() -> Any:
    # ∫ u = 1/6 on (0, 1), u(0) = 0, u″ = −2
    ends = [Dirichlet(0.0, on="left"), IntegralCondition(lambda u, x: u(x), 1 / 6)]
    return solved(rod(conditions=ends))


OPTIONS = [
    ("half precision", "precision.*float64", {"precision": "float16"}),
    ("optimizer as a class", "Adam\\(", {"optimizer": Adam}),
    ("optimizer of scipy", "optimizer|LevenbergMarquardt", {"optimizer": "L-BFGS-B"}),
    ("epochs for steps", "steps", {"epochs": 100}),
    ("lr as an argument of train", "[Aa]dam\\(|optimizer", {"lr": 0.001}),
    (
        "early stopping of keras",
        "callback|EarlyStopping|NoProgress",
        {"callbacks": [keras.callbacks.EarlyStopping(monitor="loss")]},
    ),
    ("no steps at all", "steps", {"steps": 0}),
    ("negative points", "interior must be an integer of at least 1", {"points": -5}),
    (
        "a weight of a condition that there is not",
        "dirichlet|'residual'",
        {"weights": {"bc": 10.0}},
    ),
    ("a seed that is none", "seed", {"seed": None}),
]

RESIDUALS = [
    (
        "a column that lost its axis",
        "\\[n\\]|shape|column|0:1|\\[30, 30\\]|\\(30, 30\\)",
        lambda u, x: laplacian(u, x) + 2 * x[:, 0],
    ),
    ("a residual of one axis", "\\[n|shape|column", lambda u, x: laplacian(u, x)[:, 0] + 2),
    ("an operator of values", "laplacian\\(u, x\\)|field", lambda u, x: laplacian(u(x), x) + 2),
    ("numpy in a residual", "tf\\.|TensorFlow|data", lambda u, x: laplacian(u, x) + 2 * np.sin(x)),
    ("math in a residual", "tf\\.|TensorFlow|data", lambda u, x: laplacian(u, x) + 2 * math.sin(x)),
    (
        "an if over points",
        "tf\\.where|if",
        lambda u, x: laplacian(u, x) + (2 if x[0, 0] > 0.5 else 3),
    ),
    (
        "a division by zero at the centre",
        "finite|NaN|nan|inf",
        lambda u, x: laplacian(u, x) + derivative(u, x, 0) / x + 4,
    ),
    (
        "random numbers in a residual",
        "random|draw",
        lambda u, x: laplacian(u, x) + tf.random.normal(tf.shape(x), dtype=x.dtype),
    ),
    ("a derivative by an axis too many", "axis|coordinate|'x'|0", lambda u, x: derivative(u, x, 1)),
    (
        "a component that there is not",
        "there is no component 'v'; there are u",
        lambda u, x: laplacian(u["v"], x),
    ),
]

CONDITIONS = [
    ("a face that there is not", "'left'|left", lambda: [Dirichlet(0.0, on="north")]),
    (
        "a where that is true nowhere",
        "no point|nowhere|points",
        lambda: [Dirichlet(0.0, where=lambda x: x[:, 0] > 7)],
    ),
    (
        "observations outside the domain",
        "lie outside",
        lambda: [*ENDS, Observations([[2.0]], [[0.0]])],
    ),
    (
        "observations with a gap",
        "NaN|nan|finite",
        lambda: [*ENDS, Observations([[0.2], [0.5]], [[0.16], [np.nan]])],
    ),
    (
        "observations of two lengths",
        "2|rows|values",
        lambda: [*ENDS, Observations([[0.2], [0.5]], [0.16])],
    ),
    ("a condition that is a tuple", "Condition", lambda: [("left", 0.0), ("right", 0.0)]),
    (
        "a condition that gives a number",
        "residual|Condition|shape|\\[",
        lambda: [*ENDS, Condition(lambda u, x: 0.0, on="left")],
    ),
    ("two values for one component", "outputs|component|column|2", lambda: [Dirichlet((0.0, 1.0))]),
]

for name, words, options in OPTIONS:
    table.add(Row(name, lambda options=options: solved(rod(), **options), says=words))
for name, words, residual in RESIDUALS:
    table.add(Row(name, lambda residual=residual: solved(rod(residual)), says=words))
for name, words, conditions in CONDITIONS:
    table.add(Row(name, lambda c=conditions: solved(rod(conditions=c())), says=words))


table.add(
    Row(
        "numbers of numpy everywhere",
        lambda: solved(
            rod(), steps=np.int64(40), points=np.int32(30), seed=np.int16(3), log_every=np.uint8(5)
        ),
        gives=1e-4,
    ),
    Row("steps in scientific notation", lambda: solved(rod(), steps=4e1), gives=1e-4, says="steps"),
    Row(
        "precision by the type of tensorflow",
        lambda: solved(rod(), precision=tf.float64),
        gives=1e-4,
        says="precision.*float64",
    ),
    Row(
        "precision by the type of numpy",
        lambda: solved(rod(), precision=np.float64),
        gives=1e-4,
        says="precision.*float64",
    ),
    Row(
        "data of integers",
        lambda: solved(
            rod(Residual(lambda u, x, f: laplacian(u, x) + f, data=lambda x: 2 + 0 * x.astype(int)))
        ),
        gives=1e-4,
    ),
    Row(
        "optimizer by its name in keras",
        lambda: solved(rod(), optimizer=keras.optimizers.Adam(1e-2), steps=3000),
        gives=1e-3,
    ),
    Row(
        "optimizer as a word",
        lambda: solved(rod(), optimizer="adam", steps=30_000),
        gives=1e-3,
        says="optimizer.*Adam",
    ),
    Row("an interval the wrong way round", lambda: Interval(1, 0), says="lower|upper|order|<"),
    Row("an interval without end", lambda: Interval(0, np.inf), says="finite|inf"),
    Row(
        "a disk that is periodic",
        lambda: solve(Problem(Ball([0, 0], 1), laplacian, conditions=[Periodic("x")])),
        says="box|Box|Periodic",
    ),
    Row(
        "points of ones own outside the domain",
        lambda: solved(rod(), points=np.linspace(-3, 3, 41)[:, None]),
        gives=1e-9,
        says="outside|domain",
    ),
    Row(
        "a list of equations as in deepxde",
        lambda: solved(rod(lambda u, x: [laplacian(u, x) + 2])),
        gives=1e-4,
        says="list|sequence|tuple|concat",
    ),
    Row(
        "points before the field as in deepxde",
        lambda: solved(rod(lambda x, u: laplacian(u, x) + 2)),
        says="u, x|field|points",
    ),
    Row(
        "an unknown that nobody reads",
        lambda: solved(rod(unknowns={"D": Unknown(1.0)})),
        says="unknown|D",
    ),
    Row(
        "a divergence of one component",
        lambda: solve(
            Problem(Box([0, 0], [1, 1]), lambda u, x: divergence(u, x), conditions=ENDS), steps=3
        ),
        says="2|component|divergence",
    ),
    Row(
        "a condition that is there twice",
        lambda: solve(rod(conditions=[Dirichlet(0.0), Dirichlet(0.0)]), steps=3),
        says="twice|two conditions|same",
    ),
    Row(
        "conditions by position",
        lambda: Problem(UNIT, lambda u, x: laplacian(u, x), [Dirichlet(0.0)]),
        says=r"Problem: too many positional arguments; it is called as Problem\(domain, residual",
    ),
    Row("one condition without a list", lambda: solved(rod(conditions=Dirichlet(0.0))), gives=1e-4),
    Row(
        "robin as in deepxde",
        lambda: solve(rod(conditions=[Robin(lambda x, u: 1 - u)])),
        says="alpha|beta|Robin",
    ),
    Row(
        "an exact solution of another shape",
        lambda: solved(rod(exact=lambda x: np.zeros((3, 1)))),
        says="exact",
    ),
    Row(
        "an ensemble of no members", lambda: solve(rod(), mode=Ensemble(members=0)), says="members"
    ),
    Row(
        "seeds for fewer members",
        lambda: solve(rod(), mode=Ensemble(members=4, seeds=[1, 2])),
        says="seeds",
    ),
    Row("a mode of other packages", lambda: solve(rod(), mode="ddp"), says="mode"),
    Row(
        "a batch larger than all",
        lambda: solved(rod(), points=Points(20, batch_size=64)),
        says="batch_size",
    ),
    Row(
        "slopes by their face",
        lambda: solved(rod(conditions=[Dirichlet(0, on="left"), Neumann(-1, on="right")])),
        gives=1e-4,
    ),
)

test_programs = table.as_test()
