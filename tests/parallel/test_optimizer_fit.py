"""DistributedOptimizer in Keras' fit, and the models that it leaves."""

from __future__ import annotations

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import generator, same_on_all_ranks

import sciml_par.parallel as sp
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate

pytestmark = pytest.mark.ranks(
    least=2, most=2, reason="the transfers are those of test_optimizer.py"
)

BATCH, STEPS, EPOCHS = 4, 3, 2


def data():
    """Return the data of all ranks: each step's batch is rank 0's, then rank 1's, …"""
    rng = generator(0, "data")
    x = rng.normal(size=(STEPS * BATCH * sp.size(), 3))
    return x, np.sin(x.sum(axis=1, keepdims=True))


def shard(values):
    """This rank's part of every batch."""
    parts = values.reshape(STEPS, sp.size(), BATCH, *values.shape[1:])
    return parts[:, sp.rank()].reshape(-1, *values.shape[1:])


def dense_model():
    keras.utils.set_random_seed(3)
    layers = [
        keras.layers.Dense(4, "tanh", dtype="float64"),
        keras.layers.Dense(1, dtype="float64"),
    ]
    model = keras.Sequential(layers)
    model.build((None, 3))
    return model


def fit(model, optimizer, x, y, batch, **options):
    # Keras would compute a loss in float32, whatever the model is.
    loss = keras.losses.MeanSquaredError(dtype="float64")
    model.compile(optimizer, loss=loss, **options)
    model.fit(x, y, batch_size=batch, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


@pytest.fixture(scope="module")
def serial_weights():
    x, y = data()
    batch = BATCH * sp.size()
    model = fit(dense_model(), keras.optimizers.Adam(0.01), x, y, batch, run_eagerly=True)
    return model.get_weights()


@pytest.mark.parametrize("how", ({"jit_compile": True}, {"run_eagerly": True}), ids=str)
def test_fit_is_the_serial_fit_on_the_whole_batch(how, serial_weights):
    x, y = data()
    communicator = sp.current_world().communicator
    before = communicator.progress.sequence
    optimizer = sp.DistributedOptimizer(keras.optimizers.Adam(0.01))
    model = fit(dense_model(), optimizer, shard(x), shard(y), BATCH, **how)
    transfers = STEPS * EPOCHS + 1  # the settings are compared once
    assert communicator.progress.sequence - before == transfers
    assert same_on_all_ranks(model.get_weights())
    for one, other in zip(model.get_weights(), serial_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_several_passes_in_a_compiled_fit_with_an_incomplete_batch_and_an_embedding():
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.layers.Embedding(sp.size() + 2, 2), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.build((None, 2))
    numbers = generator(sp.rank(), "numbers").integers(0, sp.size() + 2, size=(10, 2))
    optimizer = sp.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2)
    start = model.get_weights()
    model.compile(optimizer, loss="mse", jit_compile=True, steps_per_execution=2)
    model.fit(numbers, numbers.sum(axis=1), batch_size=BATCH, epochs=EPOCHS, verbose=0)
    assert int(optimizer.iterations) == EPOCHS * 3 // 2
    assert same_on_all_ranks(model.get_weights())
    assert not np.array_equal(start[0], model.get_weights()[0])


def test_a_saved_model_is_a_plain_one(tmp_path):
    x, y = data()
    optimizer = sp.DistributedOptimizer(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)), backward_passes_per_step=3
    )
    model = fit(dense_model(), optimizer, shard(x), shard(y), BATCH, run_eagerly=True)
    path = tmp_path / f"{sp.rank()}.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    assert "sciml_par" not in json.dumps(config)
    plain = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01, name="adam"))
    saved = config["compile_config"]["optimizer"]
    name, digest = saved["config"]["name"].split(".distributed-")
    assert name == optimizer.name and len(digest) == 8
    saved["config"]["name"] = plain.name
    saved["config"]["inner_optimizer"]["config"]["name"] = "adam"
    assert saved == keras.optimizers.serialize(plain)
    loaded = keras.models.load_model(path)  # by the program that has saved it
    assert isinstance(loaded.optimizer, DistributedUpdate)
    assert loaded.optimizer.name == name and loaded.optimizer._backward_passes == 3
    assert type(loaded.optimizer.inner_optimizer) is keras.optimizers.Adam
    for one, other in zip(loaded.optimizer.variables, optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


@keras.saving.register_keras_serializable(package="tests")
class Halving(keras.optimizers.SGD):
    """A custom optimizer."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient / 2, variable, learning_rate)


def test_an_optimizer_of_ones_own():
    optimizer = sp.DistributedOptimizer(Halving(1.0))
    variable = keras.Variable(1.0)
    optimizer.apply([tf.constant(float(sp.rank()))], [variable])
    assert float(variable) == pytest.approx(1 - (sp.size() - 1) / 4)
    assert keras.optimizers.serialize(optimizer)["registered_name"] == "tests>Halving"
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, DistributedUpdate) and isinstance(again, Halving)
    assert type(keras.optimizers.deserialize(keras.optimizers.serialize(Halving(1.0)))) is Halving
