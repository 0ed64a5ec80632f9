"""Variables that a residual captures are refused, by name, before any training."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Neumann,
    Problem,
    Residual,
    function_approximation,
    laplacian,
)

UNIT = Interval(0, 1)
D = tf.Variable(0.5, name="diffusivity")
KERAS = keras.Variable(2.0, name="reaction")
FIXED = tf.Variable(3.0, trainable=False, name="fixed")
SCALED = tf.function(lambda u: D * u)
COMPILED = tf.function(lambda u: SCALED(u) + 1.0, jit_compile=True)


class Scale(keras.layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(), name="factor")

    def call(self, x):
        return x * self.factor


LAYER = Scale()


def looped(u, x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * D), (0, u(x)))[1]


def branched(u, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: u(x) * D, lambda: u(x))


CAPTURING = {
    "plain": (lambda u, x: D * laplacian(u, x), "diffusivity' = 0.5"),
    "Keras": (lambda u, x: KERAS * u(x), "reaction' = 2"),
    "operand of an operator": (lambda u, x: laplacian(lambda z: D * u(z), x), "diffusivity"),
    "nested function": (lambda u, x: SCALED(u(x)), "diffusivity"),
    "nested compiled function": (lambda u, x: COMPILED(u(x)), "diffusivity"),
    "loop": (looped, "diffusivity"),
    "branch": (branched, "diffusivity"),
    "value": (lambda u, x: u(x) * D.read_value(), "diffusivity"),
    "stopped gradient": (lambda u, x: u(x) * tf.stop_gradient(D), "diffusivity"),
    "layer": (lambda u, x: LAYER(u(x)), "factor"),
}


@pytest.mark.parametrize("case", CAPTURING)
def test_a_captured_variable_is_refused_by_name(case):
    residual, name = CAPTURING[case]
    with pytest.raises(InputError, match=f"residual in term 'residual' of problem 'p' .*{name}"):
        Problem(UNIT, residual, name="p").check(MLP(1, 1), n=8)


def test_the_message_says_what_to_do():
    with pytest.raises(InputError) as caught:
        Problem(UNIT, CAPTURING["plain"][0]).check(MLP(1, 1))
    for part in ("give a number", "trainable=False", "unknowns={'D': Unknown", r"\(u, x, \*, D\)"):
        caught.match(part)


def test_in_a_condition():
    for condition in (Dirichlet(lambda x: D * x), Neumann(SCALED)):
        problem = Problem(UNIT, lambda u, x: u(x), conditions=[condition])
        with pytest.raises(InputError, match=f"condition '{condition.kind}'.*diffusivity"):
            problem.check(MLP(1, 1))


def test_in_data():
    """It is computed once, so a coefficient in it would be a constant in silence."""
    for data in (lambda x: D.numpy() * x, lambda x: float(D) * x, lambda x: D * x):
        residual = Residual(lambda u, x, f: u(x) - f, data=data)
        with pytest.raises(InputError, match="data of the residual.*diffusivity"):
            residual.points(UNIT, 5)
    with pytest.raises(InputError, match="data of the residual.*reaction"):
        function_approximation(lambda x: KERAS.numpy() * x, domain=UNIT).terms[0].points(5)


def test_made_inside():
    def makes_one(u, x):
        return u(x) * tf.Variable(1.0)

    with pytest.raises(InputError, match="a tf.Variable is made in term 'residual'.*give a number"):
        Problem(UNIT, makes_one).check(MLP(1, 1))


def test_another_network_is_refused_until_it_is_frozen():
    other = keras.Sequential([keras.Input([1]), keras.layers.Dense(2), keras.layers.Dense(1)])
    problem = Problem(UNIT, lambda u, x: u(x) - other(x))
    with pytest.raises(InputError, match=r"variables .*dense.* and 1 more"):
        problem.check(MLP(1, 1))
    other.trainable = False
    problem.check(MLP(1, 1))
    taught = Residual(lambda u, x, f: u(x) - f, data=lambda x: other.predict(x, verbose=0))
    np.testing.assert_allclose(taught.points(UNIT, 5)[1], other(UNIT.grid(5)), rtol=1e-5)


def test_what_is_known_is_allowed():
    number, array, tensor = 0.5, np.ones(1, "float32"), tf.constant(2.0)
    problem = Problem(
        UNIT,
        lambda u, x: number * u(x) + array + tensor + FIXED,
        conditions=[Dirichlet(lambda x: FIXED * x)],
        exact=lambda x: D.numpy() * x,
    )
    problem.check(MLP(1, 1))
