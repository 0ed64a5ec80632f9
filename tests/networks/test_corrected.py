"""The sum of any Keras model and of a correction: one function with derivatives."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par import _tape
from sciml_par.errors import InputError
from sciml_par.networks import MLP, Corrected, ModifiedMLP, RandomFeatures, as_network

pytestmark = pytest.mark.ranks(most=1, reason="networks are local")
BOX = [0.0, 0.0], [1.0, 1.0]
THIRD = {(0, 0, 1): 2.0, (1, 1, 1): -1.0}


def skip(activation="tanh", dtype="float64"):
    """Return a model that is not a chain of layers."""
    x = keras.Input((2,), dtype=dtype)
    h = layers.Dense(4, activation, dtype=dtype)(x)
    joined = layers.Concatenate(dtype=dtype)([h, x])
    return keras.Model(x, layers.Dense(1, dtype=dtype)(joined))


@keras.saving.register_keras_serializable(package="tests")
class Wave(keras.Model):
    """A subclass of Keras' model, which is not built yet."""

    def __init__(self, **options):
        super().__init__(dtype="float64")
        self.hidden = layers.Dense(5, dtype="float64")
        self.last = layers.Dense(1, dtype="float64")

    def call(self, x):
        return self.last(tf.sin(3.0 * self.hidden(x)) * x[:, :1])

    def build(self, input_shape):
        self.hidden.build(input_shape)
        self.last.build((None, 5))
        self.built = True

    def get_config(self):
        return {}


def features(**options):
    return RandomFeatures(
        2, 1, features=6, box=BOX, **{"dtype": "float64", "scale": 3.0, **options}
    )


def with_output(model):
    """Return features whose output layer is not zero."""
    rng = np.random.default_rng(3)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    return model


BASES = {
    "skip": skip,
    "subclass": Wave,
    "sequential": lambda: keras.Sequential(
        [layers.Dense(4, "tanh", dtype="float64"), layers.Dense(1, dtype="float64")]
    ),
    "MLP": lambda: MLP(2, 1, width=4, dtype="float64"),
    "ModifiedMLP": lambda: ModifiedMLP(2, 1, width=4, dtype="float64"),
    "Corrected": lambda: Corrected(skip(), with_output(features(seed=5))),
}


@pytest.mark.parametrize("name", BASES)
def test_its_derivatives_are_those_of_the_sum(name):
    model = Corrected(BASES[name](), with_output(features()))
    x = tf.constant(np.random.default_rng(0).random((5, 2)))
    weights = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    value = partial(model.apply, weights)
    np.testing.assert_allclose(value(x), model(x), rtol=1e-12)
    second = np.array([np.eye(2), [[0.0, 0.5], [0.5, 0.0]]])
    operator = tuple(THIRD.items())
    *expected, third = _tape.jet_at(value, None, x, second, (operator,))
    for found, wanted in zip(model.jet(weights, x, second), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    found = model.jet(weights, x, second, higher=[THIRD])[3]
    np.testing.assert_allclose(found, third, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", BASES)
def test_it_is_saved_with_its_base(name, tmp_path):
    model = Corrected(BASES[name](), with_output(features()))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(0).random((5, 2))
    np.testing.assert_array_equal(loaded(x), model(x))


def test_alike_bases_are_one_program():
    keys = [
        as_network(Corrected(skip(activation), features(seed=seed)), 2, 1, dtype="float64").key
        for activation, seed in (("tanh", 0), ("tanh", 1), ("softplus", 0))
    ]
    assert keys[0] == keys[1] != keys[2]
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    ("base", "match"),
    [
        (lambda: skip(dtype="float32"), "computes in float32, but the training in float64"),
        (lambda: MLP(3, 1, dtype="float64"), "takes 3 inputs, but the problem has 2"),
        (lambda: MLP(2, 2, dtype="float64"), "has 2 outputs"),
        (
            lambda: keras.Sequential([skip(), layers.Dropout(0.5, dtype="float64")]),
            "is not a function u",
        ),
        (lambda: layers.Dense(1), "expected the base to be a Keras 3 model; got Dense"),
        (lambda: np.sin, "expected the base to be a Keras 3 model; got ufunc"),
    ],
)
def test_what_cannot_be_a_base_is_refused(base, match):
    with pytest.raises(InputError, match=match):
        Corrected(base(), features())


@pytest.mark.parametrize("correction", [skip, lambda: None, lambda: np.sin])
def test_what_cannot_be_a_correction_is_refused(correction):
    with pytest.raises(InputError, match="expected the correction to be a network of sciml_par"):
        Corrected(skip(), correction())
