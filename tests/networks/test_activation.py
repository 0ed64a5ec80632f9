"""Closed derivatives of the activations against automatic differentiation."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import ACTIVATIONS, activation_named


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives(name):
    activation = activation_named(name)
    z = tf.constant(np.linspace(-6, 6, 41))
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            value = activation.value(z)
        slope = inner.gradient(value, z)
    curvature = outer.gradient(slope, z)
    expected = (value, slope, curvature)
    for got, exact in zip(activation.derivatives(z), expected, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values(name):
    reference = {
        "tanh": np.tanh,
        "sin": np.sin,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "softplus": lambda z: np.log1p(np.exp(z)),
        "swish": lambda z: z / (1 + np.exp(-z)),
        # Φ(1) of the normal distribution, to ten digits, decides at z = 1.
        "gelu": lambda z: np.where(z == 1.0, 0.8413447461, 0.0),
    }
    z = np.array([0.0, 1.0]) if name == "gelu" else np.linspace(-3, 3, 13)
    got = activation_named(name).value(tf.constant(z))
    np.testing.assert_allclose(got, reference[name](z), rtol=1e-9)
