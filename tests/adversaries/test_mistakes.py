"""What users type by habit or by mistake: the thing that was meant, or a sentence."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table
from setups import UNIT, rod, solve, solved

from sciml_par.problems import (
    Ball,
    Condition,
    Dirichlet,
    Periodic,
    Problem,
    Residual,
    Robin,
    derivative,
    laplacian,
)

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


# Options and residuals

OPTIONS = [
    ("optimizer of scipy", "optimizer|LevenbergMarquardt", {"optimizer": "L-BFGS-B"}),
    ("lr as an argument of train", "[Aa]dam\\(|optimizer", {"lr": 0.001}),
    ("a seed that is none", "seed", {"seed": None}),
]

RESIDUALS = [
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
]

for name, words, options in OPTIONS:
    table.add(Row(name, lambda options=options: solved(rod(), **options), says=words))
for name, words, residual in RESIDUALS:
    table.add(Row(name, lambda residual=residual: solved(rod(residual)), says=words))


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
    Row(
        "a disk that is periodic",
        lambda: solve(Problem(Ball([0, 0], 1), laplacian, conditions=[Periodic("x")])),
        says="box|Box|Periodic",
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
        "a condition that gives a number",
        lambda: solved(rod(conditions=[*ENDS, Condition(lambda u, x: 0.0, on="left")])),
        says="residual|Condition|shape|\\[",
    ),
)

test_programs = table.as_test()
