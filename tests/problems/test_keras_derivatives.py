"""Derivatives of Keras models, with and without a jet, against exact ones and each other."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.networks import make_network
from sciml_par.problems import Field, derivative, hessian, jacobian, laplacian


def run_in(mode, function, *arguments):
    if mode == "eager":
        return function(*arguments)
    return tf.function(function, jit_compile=mode == "jit", autograph=False)(*arguments)


class Polynomials(keras.Model):
    """u = a x³y + b x y², v = c x²y² at weights (a, b, c)."""

    def __init__(self):
        super().__init__()
        self.factors = self.add_weight(shape=(3,), initializer="ones")

    def call(self, points):
        x, y = points[:, :1], points[:, 1:]
        a, b, c = (self.factors[i] for i in range(3))
        return keras.ops.concatenate([a * x**3 * y + b * x * y**2, c * x**2 * y**2], axis=1)


EXACT = {
    "slopes": (
        jacobian,
        lambda x, y: [
            [3 * 2 * x**2 * y + 3 * y**2, 2 * x**3 + 6 * x * y],
            [2 * x * y**2, 2 * x**2 * y],
        ],
    ),
    "laplacian": (laplacian, lambda x, y: [12 * x * y + 6 * x, 2 * y**2 + 2 * x**2]),
    "mixed": (lambda u, x: derivative(u, x, 0, 1), lambda x, y: [6 * x**2 + 6 * y, 4 * x * y]),
    "third": (lambda u, x: derivative(u, x, 0, 0, 0), lambda x, y: [12 * y, 0 * x]),
    "third, mixed": (lambda u, x: derivative(u, x, 1, 0, 0), lambda x, y: [12 * x, 4 * y]),
}
"""Operators and what they are at a = 2, b = 3, c = 1."""


CASES = [*((name, "eager") for name in EXACT), ("laplacian", "graph"), ("mixed", "jit")]
CASES += [case for case in itertools.product(EXACT, ("graph", "jit")) if case not in CASES]


@pytest.mark.all_after(7)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_model_without_a_jet_has_exact_derivatives(name, mode):
    network = make_network(Polynomials, 2, 2, dtype="float64")
    assert network.jet is None
    operator, exact = EXACT[name]
    x = np.random.default_rng(0).uniform(-1, 1, (5, 2))

    def run(factors, points):
        return operator(Field(lambda z: network.apply([factors], z)), points)

    found = run_in(mode, run, tf.constant([2.0, 3.0, 1.0], tf.float64), tf.constant(x))
    expected = np.array(exact(x[:, 0], x[:, 1]))
    np.testing.assert_allclose(found, np.moveaxis(expected, -1, 0), rtol=1e-12, atol=1e-12)


def every_layer():
    return keras.Sequential(
        [
            keras.Input((2,)),
            layers.Rescaling(0.7, offset=0.1),
            layers.Normalization(mean=[0.2, -0.3], variance=[0.5, 2.0]),
            layers.Dense(5, "tanh"),
            layers.Dense(4),
            layers.Activation(keras.ops.sin),
            layers.Dense(4),
            layers.Dense(5, "sigmoid", use_bias=False),
            layers.Dense(4, "silu"),
            layers.Dense(2, "softplus"),
        ]
    )


def one_layer():
    return keras.Sequential([layers.Rescaling(3.0), layers.Dense(2)])


OPERATORS = {
    "laplacian": laplacian,
    "hessian": lambda u, x: tf.reshape(hessian(u, x), [-1, 8]),
    "slopes": lambda u, x: tf.reshape(jacobian(u, x), [-1, 4]),
    "third": lambda u, x: derivative(u, x, 0, 1, 1),
}


COMPILED = [
    *((every_layer, name, "eager") for name in OPERATORS),
    (every_layer, "laplacian", "jit"),
    (every_layer, "slopes", "graph"),
    (one_layer, "third", "jit"),
    (one_layer, "third", "eager"),
    (one_layer, "hessian", "eager"),
    (every_layer, "third", "graph"),
    (every_layer, "hessian", "graph"),
    (every_layer, "hessian", "jit"),
]


@pytest.mark.all_after(9)
@pytest.mark.parametrize(("make", "name", "mode"), COMPILED)
def test_the_jet_of_a_chain_equals_nested_tapes(make, name, mode):
    """The derivatives, and the gradients of their squares by the weights."""
    network = make_network(make, 2, 2, dtype="float64")
    rng = np.random.default_rng(1)
    parameters = [tf.constant(rng.normal(size=v.shape)) for v in network.trainable_variables]
    x = tf.constant(rng.uniform(-1, 1, (4, 2)))

    def run(with_jet, weights):
        jet = (lambda z, s: network.jet(weights, z, s)) if with_jet else None
        with tf.GradientTape() as tape:
            tape.watch(weights)
            result = OPERATORS[name](Field(lambda z: network.apply(weights, z), jet=jet), x)
            loss = tf.reduce_sum(result**2)
        return result, tape.gradient(loss, weights, unconnected_gradients="zero")

    found = run_in(mode, lambda weights: run(True, weights), parameters)
    expected = run(False, parameters)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
