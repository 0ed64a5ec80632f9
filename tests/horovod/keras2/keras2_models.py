"""Models and data of the programs with Keras 2, which differ from rank to rank."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp

kinds = pytest.mark.parametrize("kind", [keras.optimizers, keras.optimizers.legacy])
"""Optimizers as Keras has them since 2.11, and the legacy ones."""

RANKS = range(sp.size())
TOTAL = sum(rank + 1.0 for rank in RANKS)
MEAN = TOTAL / sp.size()


def inputs(rank, rows=6):
    return np.random.default_rng([rank, 3]).normal(1.0 + rank, size=(rows, 2)).astype("float32")


def targets(x):
    return (x**2).sum(axis=1, keepdims=True)


def model_of(optimizer, *layers, **options):
    last = keras.layers.Dense(1, kernel_initializer="ones")
    model = keras.Sequential([keras.layers.Input([2]), *layers, last])
    model.compile(optimizer, loss="mse", **({"run_eagerly": True} | options))
    return model


def fit(model, x, epochs=3, **options):
    options = {"batch_size": len(x), "epochs": epochs, "shuffle": False, "verbose": 0} | options
    return model.fit(x, targets(x), **options)


def everyones_inputs():
    return np.concatenate([inputs(rank) for rank in RANKS])


def assert_alike_on_all_ranks(model):
    flat = np.concatenate([w.ravel() for w in model.get_weights()])
    everyone = hvd.allgather(flat[np.newaxis]).numpy()
    assert (everyone == everyone[0]).all()


def mine(value=1.0):
    """A gradient by a variable of shape [2]: (rank + 1) times `value`."""
    return tf.fill([2], value * (sp.rank() + 1.0))


def new_variable():
    return tf.Variable([0.0, 0.0])
