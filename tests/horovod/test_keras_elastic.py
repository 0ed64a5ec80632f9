"""The elastic state of a Keras model, and the callbacks that keep it up to date."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.keras as by_keras
import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp

pytestmark = pytest.mark.skipif(sp.size() > 2, reason="the same on two ranks")


def new_model():
    """u = w x + b, of weights that are the rank's number."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.5))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, float(sp.rank())))
    return model


def fit(model, *callbacks, epochs=1):
    x = np.full((6, 2), 1.0 + sp.rank(), "float32")
    model.fit(x, x[:, :1], batch_size=2, epochs=epochs, verbose=0, callbacks=list(callbacks))


def test_a_state_is_that_of_rank_0_until_it_is_committed_anew():
    model = new_model()
    state = by_keras.elastic.KerasState(model, batch=20 + sp.rank(), epoch=[10 + sp.rank()])
    state.sync()
    assert (state.batch, state.epoch) == (20, [10])
    assert all((weight == 0).all() for weight in model.get_weights())
    state.batch = 21
    fit(model)
    state.restore()
    assert state.batch == 20
    assert all((weight == 0).all() for weight in model.get_weights())
    fit(model)
    state.batch = 22
    state.commit()
    kept = model.get_weights()
    fit(model)
    state.restore()
    assert state.batch == 22
    for before, after in zip(kept, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


class Recorder:
    """In place of a state: what it was when it was committed."""

    def __init__(self):
        self.batch, self.epoch, self.commits = 0, 3, []

    def commit(self):
        self.commits.append((self.batch, self.epoch))


@pytest.mark.skipif(sp.size() > 1, reason="concerns each rank by itself")
def test_callbacks_commit_and_count():
    state = Recorder()
    fit(
        new_model(),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
        epochs=2,
    )
    # Three batches an epoch: after the second, the fourth, and the sixth, and at each epoch's end.
    assert state.commits == [(1, 3), (0, 4), (0, 4), (2, 4), (0, 5)]
