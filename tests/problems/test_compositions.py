"""Operators on functions of fields: right, and by the jets of the fields where that is possible."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import MLP
from sciml_par.problems import Box, Problem, Term, derivative, divergence, gradient, laplacian

BOX = Box([-1.0, 0.0], [1.0, 2.0], names=("x", "t"))
MODEL = MLP(2, 2, width=4, depth=2, dtype="float64")
RNG = np.random.default_rng(3)
PARAMETERS = [tf.constant(0.7 * RNG.normal(size=v.shape)) for v in MODEL.trainable_variables]
X = tf.constant(BOX.sample(3, seed=1))
PROBLEM = Problem(BOX, lambda u, x: u(x), outputs=("u", "v"))


def plain(u, x):
    """The Laplacian in both coordinates."""
    return laplacian(u, x, over=(0, 1))


def by_own_tape(u, z):
    with tf.GradientTape() as tape:
        tape.watch(z)
        v = u(z)
    return tape.gradient(v, z)


BY_JET = {
    "square": lambda u, x: derivative(lambda z: u(z) ** 2, x, "x"),
    "with a coefficient": lambda u, x: laplacian(lambda z: tf.exp(z[:, :1]) * u(z), x, over="x"),
    "flux": lambda u, x: divergence(lambda z: z**2 * gradient(u["v"], z), x),
    "third": lambda u, x: derivative(lambda z: u["u"](z) * u["v"](z), x, 0, 1, 1),
    "of a function of a function": lambda u, x: derivative(
        lambda z: z[:, :1] * derivative(lambda y: y[:, 1:] * u(y) ** 2, z, 0), x, 0
    ),
    "order five": lambda u, x: derivative(lambda z: derivative(u, z, 0, 0, 0), x, 0, 1),
    "with the outer points": lambda u, x: derivative(lambda z: u(x) * u(z), x, 0),
}
BY_TAPES = {
    "elsewhere": lambda u, x: plain(lambda z: u(z) * u(-z), x),
    "a tape of its own": lambda u, x: derivative(lambda z: by_own_tape(u, z), x, 0),
}


@pytest.mark.parametrize("name", [*BY_JET, *BY_TAPES])
def test_functions_of_a_field(name):
    equation = {**BY_JET, **BY_TAPES}[name]
    evaluated = []

    def apply(z):
        if tf.executing_eagerly():  # the trials of functions are traced
            evaluated.append("value")
        return MODEL.apply(PARAMETERS, z)

    def jet(z, second, higher=()):
        if tf.executing_eagerly():
            evaluated.append("jet")
        return MODEL.jet(PARAMETERS, z, second, higher=higher)

    u = PROBLEM.field(apply, jet=jet)
    term = Term("test", 1.0, lambda n: (), equation)
    with tf.GradientTape() as tape:  # as in training
        tape.watch(PARAMETERS)
        found = term.residual(u, X)
    assert ("value" not in evaluated) == (name in BY_JET)
    assert len(evaluated) == 1 or name not in BY_JET
    plain = PROBLEM.field(partial(MODEL.apply, PARAMETERS))
    expected = equation(plain, X)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=1e-11)


def test_one_jet_serves_a_function_of_the_field_and_the_field():
    asked = []

    def jet(z, second, higher=()):
        asked.append(tf.executing_eagerly())
        return MODEL.jet(PARAMETERS, z, second, higher=higher)

    def equation(u, x):
        flux = divergence(lambda z: z**2 * gradient(u["v"], z), x)
        return derivative(u["u"], x, "t") + flux + derivative(lambda z: u["u"](z) ** 2, x, "x")

    u = PROBLEM.field(partial(MODEL.apply, PARAMETERS), jet=jet)
    term = Term("test", 1.0, lambda n: (), equation)
    term.plan(u, X)
    asked.clear()
    term.residual(u, X)
    assert asked == [True]
