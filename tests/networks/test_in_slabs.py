"""Networks one after another in time, as one model."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import MLP, FourierFeatures, PirateNet, RandomFeatures
from sciml_par.networks.keras.in_slabs import InSlabs, Moved

K = 3
TIMES, CENTERS = np.arange(1.0, K), np.column_stack([np.zeros(K), np.arange(K) + 0.5])
FACTORS = np.tile([1.0, 2.0], (K, 1))
FACTORS[2] = 1.0, 3.0


def made():
    rng = np.random.default_rng(0)
    networks = [MLP(2, 2, width=4, depth=1, seed=k, dtype="float64") for k in range(K - 1)]
    networks.insert(1, RandomFeatures(2, 2, features=5))
    networks[1].set_weights([rng.normal(size=w.shape) for w in networks[1].get_weights()])
    return InSlabs(networks, 2, 2, times=TIMES, centers=CENTERS, factors=FACTORS)


def one_by_one(model, x):
    slabs = np.sum(x[:, -1:] > TIMES, axis=1)
    z = (x - CENTERS[slabs]) * FACTORS[slabs]
    return np.array([model.networks[k](tf.constant(z[i : i + 1]))[0] for i, k in enumerate(slabs)])


def check_export(model, x, folder):
    model.export(folder / "saved", verbose=False)
    saved = tf.saved_model.load(str(folder / "saved"))
    np.testing.assert_allclose(saved.serve(tf.constant(x)), model(tf.constant(x)), atol=1e-6)


def test_networks_export_without_a_call(tmp_path):
    """Also inside of a Sequential, and with few and many points."""
    inner = keras.Sequential([keras.Input((2,)), PirateNet(2, 1)])
    waves = MLP(2, 1, embedding=FourierFeatures(8))
    for number, model in enumerate((waves, RandomFeatures(2, 1, features=7), inner)):
        x = np.random.default_rng(number).uniform(size=(5 + number, 2))
        check_export(model, x.astype(model.weights[0].dtype), tmp_path / str(number))


@pytest.mark.parametrize("n", [1, 40])
def test_each_point_has_the_network_of_its_slab(n, tmp_path):
    """Also at times between slabs, which belong to the earlier one."""
    rng, model = np.random.default_rng(n), made()
    x = np.column_stack([rng.uniform(size=n), np.round(rng.uniform(0, K, n), 1)])
    expected = one_by_one(model, x)
    np.testing.assert_allclose(model(tf.constant(x)), expected, atol=1e-13)
    parameters = [v.value for v in model.trainable_variables]
    compiled = tf.function(lambda z: model.apply(parameters, z), jit_compile=True)
    np.testing.assert_allclose(compiled(tf.constant(x)), expected, atol=1e-13)
    if n > 3:
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(tf.constant(x)), model(tf.constant(x)))
        check_export(model, x, tmp_path)


def test_the_jet_is_that_of_nested_tapes_in_a_compiled_function():
    model = made()
    parameters = [v.value for v in model.trainable_variables]
    x = tf.constant(np.random.default_rng(0).uniform(0, K, (20, 2)))

    def nested(z):
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                u = model.apply(parameters, z)[:, 0]
            du = inner.gradient(u, z)
            u_t = du[:, 1]
        return du, outer.gradient(u_t, z)[:, 1]

    du, u_tt = tf.function(nested, jit_compile=True)(x)
    _, first, second = model.jet(parameters, x, [[[0.0, 0.0], [0.0, 1.0]]])
    assert model.jet(parameters, x, np.zeros((0, 2, 2)))[2].shape == (20, 2, 0)
    np.testing.assert_allclose(first[:, 0], du, atol=1e-12)
    np.testing.assert_allclose(second[:, 0, 0], u_tt, atol=1e-12)


def test_a_moved_network_has_the_jet_and_the_records_of_the_network_there():
    network = MLP(2, 2, width=4, depth=2, dtype="float64")
    model, places = Moved(network, 2, 2, [0.1, -0.2]), []
    weights = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    x = tf.constant(np.random.default_rng(0).random((3, 2)))
    asked = {"second": np.eye(2)[None], "higher": [{(0, 0, 1): 1.0}]}

    def record_of(layer):
        places.append((layer.weight, layer.bias))
        return lambda inputs, products: list(products)

    expected = network.jet(weights[1:], x - [[0.1, -0.2]], **asked)
    for found in (
        model.jet(weights, x, **asked),
        model.jet(weights, x, record_of=record_of, **asked),
    ):
        for got, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-13)
    assert places == [(1, 2), (3, 4), (5, 6)]
