"""The MLP as a Keras model and as pure functions."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import ACTIVATIONS, MLP


def weights(model):
    return [v.numpy() for v in model.trainable_variables]


def test_weights_exist_from_construction_in_order():
    model = MLP(2, 3, width=5, depth=2)
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    assert shapes == [(2, 5), (5,), (5, 5), (5,), (5, 3), (3,)]
    assert MLP(1, 1).count_params() == 321


def test_seeds():
    for a, b in zip(weights(MLP(1, 1, seed=3)), weights(MLP(1, 1, seed=3)), strict=True):
        np.testing.assert_array_equal(a, b)
    first, other = weights(MLP(1, 1, seed=3)), weights(MLP(1, 1, seed=4))
    assert not any(np.array_equal(a, b) for a, b in zip(first[::2], other[::2], strict=True))
    deep = weights(MLP(8, 8, width=8, depth=3))
    assert not np.array_equal(deep[0], deep[2])
    assert not np.array_equal(deep[2], deep[4])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_call_apply_and_jet_agree(activation, dtype):
    model = MLP(2, 3, width=5, activation=activation, dtype=dtype)
    assert {v.dtype for v in model.trainable_variables} == {dtype}
    x = tf.random.stateless_normal([7, 2], [0, 1], dtype=dtype)
    parameters = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    u = model(x)
    assert u.dtype == dtype
    np.testing.assert_array_equal(model.apply(parameters, x), u)
    value, du, operators = model.jet(parameters, x, np.eye(2)[None])
    np.testing.assert_allclose(value, u, rtol=1e-5, atol=1e-6)
    assert (du.shape, operators.shape) == ((7, 3, 2), (7, 3, 1))
    assert du.dtype == operators.dtype == dtype


def test_apply_uses_the_parameters_it_is_given():
    model = MLP(1, 1)
    x = tf.ones([3, 1])
    zeros = [tf.zeros_like(v) for v in model.trainable_variables]
    assert not model.apply(zeros, x).numpy().any()
    assert not model.jet(zeros, x, np.ones((1, 1, 1)))[2].numpy().any()


def test_it_is_an_ordinary_keras_model():
    model = MLP(1, 1, width=8, seed=1)
    x = np.linspace(-1, 1, 32, dtype="float32")[:, None]
    model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=False)
    history = model.fit(x, x**2, batch_size=32, epochs=30, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    assert model.predict(x, verbose=0).shape == (32, 1)
    inputs = keras.Input((1,))
    functional = keras.Model(inputs, 2 * model(inputs))
    np.testing.assert_allclose(functional(x), 2 * model(x), rtol=1e-6)


def test_zero_coefficients():
    model = MLP(2, 1, dtype="float64")
    _, _, operators = model.jet(
        model.trainable_variables, tf.ones([3, 2], tf.float64), np.zeros((1, 2, 2))
    )
    np.testing.assert_array_equal(operators, np.zeros((3, 1, 1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": 0}, "inputs"),
        ({"outputs": -1}, "outputs"),
        ({"width": 0}, "width"),
        ({"width": 2.5}, "width"),
        ({"depth": 0}, "depth"),
        ({"depth": True}, "depth"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"dtype": "float16"}, "dtype"),
        ({"dtype": tf.float64}, "dtype"),
        ({"name": 3.0}, "MLP: name must be a text without '/', got 3.0"),
        ({"name": "a/b"}, "name must be a text"),
        ({"activation": "cosh"}, "unknown activation 'cosh'"),
        ({"activation": None}, "unknown activation None"),
        ({"activation": "relu"}, "second derivative is zero"),
        ({"activation": "leaky_relu"}, "second derivative is zero"),
    ],
)
def test_bad_arguments(arguments, message):
    everything = {"inputs": 1, "outputs": 1} | arguments
    with pytest.raises(InputError, match=message):
        MLP(everything.pop("inputs"), everything.pop("outputs"), **everything)


def test_bad_calls():
    model = MLP(2, 1)
    parameters = list(model.trainable_variables)
    with pytest.raises(InputError, match=r"x\[:, i:i\+1\]"):
        model.apply(parameters, tf.ones([3]))
    with pytest.raises(InputError, match=r"\[n, 2\], got \[3, 1\]"):
        model.apply(parameters, tf.ones([3, 1]))
    with pytest.raises(InputError, match="x is float64, the parameters are float32"):
        model.jet(parameters, tf.ones([3, 2], tf.float64), np.eye(2)[None])
    with pytest.raises(InputError, match="6 parameters.* got 5"):
        model.apply(parameters[1:], tf.ones([3, 2]))
    for second in (np.eye(2), np.eye(3)[None]):
        with pytest.raises(InputError, match=r"\[K, 2, 2\]"):
            model.jet(parameters, tf.ones([3, 2]), second)
