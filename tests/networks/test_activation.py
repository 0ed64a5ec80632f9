"""Activations against NumPy, and their closed derivatives against automatic differentiation."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import ACTIVATIONS
from sciml_par.networks.layers.activation import LINEAR, Activation

REFERENCE = {
    "tanh": np.tanh,
    "sin": np.sin,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "softplus": lambda z: np.log1p(np.exp(z)),
    "swish": lambda z: z / (1 + np.exp(-z)),
    # Φ(1) of the normal distribution, to ten digits, decides at z = 1.
    "gelu": lambda z: np.where(z == 1.0, 0.8413447461, 0.0),
    "linear": lambda z: z,
}


@pytest.mark.parametrize("activation", [*ACTIVATIONS.values(), LINEAR], ids=lambda a: a.name)
def test_values_and_derivatives_to_the_fourth(activation):
    z = np.array([0.0, 1.0]) if activation.name == "gelu" else np.linspace(-3, 3, 13)
    got = activation.value(tf.constant(z))
    np.testing.assert_allclose(got, REFERENCE[activation.name](z), rtol=1e-9)
    z = tf.constant(np.linspace(-6, 6, 41))
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            value = activation.value(z)
        slope = inner.gradient(value, z)
    curvature = outer.gradient(slope, z, unconnected_gradients="zero")
    # Of what has no closed third derivative, tapes make it.
    plain = Activation("the same", activation.value, activation.derivatives).up_to(4, z)
    expected = (value, slope, curvature, *plain[3:])
    for found, exact in zip(activation.up_to(4, z), expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-13)
    assert len(activation.up_to(3, z)) == 4
