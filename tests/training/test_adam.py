"""Adam on a flat vector is Keras' Adam."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp  # noqa: F401 (read by skipif)
from sciml_par.errors import InputError
from sciml_par.training import Adam


@pytest.mark.skipif("sp.size() > 1", reason="a thousand eager operations, on no rank others")
@pytest.mark.parametrize("options", [{}, {"learning_rate": 0.03, "beta_1": 0.5, "beta_2": 0.95}])
def test_agrees_with_keras(options: dict[str, float]) -> None:
    rng = np.random.default_rng(3)
    gradients = rng.normal(size=(60, 7)) * np.logspace(-6, 3, 7)
    variable = keras.Variable(np.zeros(7), dtype="float64")
    theirs = keras.optimizers.Adam(**options)
    ours = Adam(**options)
    parameters = tf.zeros([7], tf.float64)
    state = ours.start(parameters)
    for step, gradient in enumerate(gradients, start=1):
        theirs.apply([tf.constant(gradient)], [variable])
        parameters, state = ours.update(parameters, tf.constant(gradient), state, tf.constant(step))
    # Keras keeps its coefficients in float32 here and there.
    np.testing.assert_allclose(parameters, variable, rtol=2e-5)
    assert np.abs(parameters).min() > 1e-3


def test_first_step_has_the_length_of_the_learning_rate() -> None:
    optimizer = Adam(learning_rate=0.125, epsilon=1e-300)
    zero = tf.zeros([3], tf.float64)
    gradient = tf.constant([2.0, -1e-8, 1e8], tf.float64)
    end, _ = optimizer.update(zero, gradient, optimizer.start(zero), tf.constant(1))
    np.testing.assert_allclose(end, [-0.125, 0.125, -0.125], rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": 0.0},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"learning_rate": float("inf")},
        {"beta_1": 1.0},
        {"beta_2": -0.1},
        {"epsilon": 0.0},
    ],
)
def test_refuses_bad_numbers(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))}.*got"):
        Adam(**options)
