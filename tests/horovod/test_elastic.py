"""Elastic states as containers that save, restore and broadcast."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.keras as by_keras
import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
from sciml_par.horovod.common import elastic
from sciml_par.horovod.common.elastic import ObjectState

v1 = tf.compat.v1

pytestmark = pytest.mark.ranks(least=2, most=2, reason="states are given from rank to rank")
alone = pytest.mark.ranks(least=1, most=1, reason="concerns each rank separately")


def objects(**kwargs) -> ObjectState:
    return ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, **kwargs)


def test_objects_are_kept_and_brought_back():
    state = objects(epoch=0, losses=[])
    state.epoch, state.losses = 3, [*state.losses, 0.5]
    state.save()
    state.epoch = 4
    state.losses.append(0.25)  # in place: the saved list must not change
    state.restore()
    assert (state.epoch, state.losses) == (3, [0.5])
    state.losses.append(0.125)
    state.restore()
    assert state.losses == [0.5]


def test_objects_of_rank_0_are_given_to_all():
    state = objects(epoch=hvd.rank(), losses=[hvd.rank()])
    state.epoch = 10 + hvd.rank()  # after the last save: not broadcast
    state.sync()
    assert (state.epoch, state.losses) == (0, [0])
    objects().sync()


@alone
def test_names_of_changing_hosts_do_nothing():
    state = objects(epoch=0)
    called = []
    state.register_reset_callbacks([lambda: called.append("first"), lambda: called.append("next")])
    state.on_hosts_updated(1.0, 1)
    state.check_host_updates()
    state.on_reset()
    assert called == ["first", "next"]
    manager = elastic.notification_manager
    manager.init()
    manager.register_listener(state)
    manager.remove_listener(state)


def test_variables():
    mine = float(hvd.rank())
    w, b = tf.Variable([mine, 1.0]), keras.Variable([mine])
    state = hvd.elastic.TensorFlowState([w, b], batch=hvd.rank())
    w.assign([mine + 5.0, 1.0])
    state.sync()  # the present variables, the saved attributes
    np.testing.assert_array_equal(w, [5.0, 1.0])
    assert (float(b.value[0]), state.batch) == (0.0, 0)
    w.assign([7.0, 7.0])
    b.assign([7.0])
    state.batch = 7
    state.restore()
    np.testing.assert_array_equal(w, [5.0, 1.0])
    assert (float(b.value[0]), state.batch) == (0.0, 0)
    w.assign([7.0, 7.0])
    state.batch = 7
    state.commit()
    state.restore()
    np.testing.assert_array_equal(w, [7.0, 7.0])
    assert state.batch == 7


def test_variables_in_a_session():
    with v1.Graph().as_default():
        w = v1.get_variable("w", initializer=[float(hvd.rank())])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            state = hvd.elastic.TensorFlowState(epoch=hvd.rank())
            v1.get_default_graph().finalize()
            state.sync()
            assert (session.run(w)[0], state.epoch) == (0.0, 0)
            w.load([3.0], session)
            state.restore()
            assert session.run(w)[0] == 0.0
        with pytest.raises(InputError, match="session"):
            hvd.elastic.TensorFlowState([w])


def new_model():
    """u = w x + b, with the rank's number as weights."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    optimizer = by_keras.DistributedOptimizer(keras.optimizers.SGD(0.01 * (1 + hvd.rank()), 0.5))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, float(hvd.rank())))
    return model


def fit(model, *callbacks, epochs=1):
    x = np.full((6, 2), 1.0 + hvd.rank(), "float32")
    model.fit(x, x[:, :1], batch_size=2, epochs=epochs, verbose=0, callbacks=list(callbacks))


def test_model_and_optimizer():
    model = new_model()
    model.optimizer.build(model.trainable_variables)
    state = by_keras.elastic.KerasState(model, batch=20 + hvd.rank(), epoch=[10 + hvd.rank()])
    state.sync()
    assert (state.batch, state.epoch) == (20, [10])
    assert all((weight == 0).all() for weight in model.get_weights())
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01)
    state.batch = 21
    fit(model)
    assert int(model.optimizer.iterations) == 3
    state.restore()
    assert (state.batch, int(model.optimizer.iterations)) == (20, 0)
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


@alone
def test_a_model_without_weights():
    empty = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(InputError, match="no weights yet"):
        hvd.elastic.TensorFlowKerasState(empty, keras.optimizers.SGD())


class Recorder:
    """A stand-in for a state, with its content at each commit."""

    def __init__(self):
        self.batch, self.epoch, self.commits = 0, 3, []

    def commit(self):
        self.commits.append((self.batch, self.epoch))


@alone
def test_callbacks_commit_and_count():
    state = Recorder()
    fit(
        new_model(),
        by_keras.elastic.UpdateBatchStateCallback(state),
        by_keras.elastic.UpdateEpochStateCallback(state),
        by_keras.elastic.CommitStateCallback(state, batches_per_commit=2),
        epochs=2,
    )
    # Three batches an epoch: after the second, the fourth, and the sixth, and at each epoch's end.
    assert state.commits == [(1, 3), (0, 4), (0, 4), (2, 4), (0, 5)]


def test_a_function_is_run_once():
    calls = []

    @hvd.elastic.run
    def train(state, steps, *, scale):
        calls.append(state.epoch)
        return steps * scale

    assert train(objects(epoch=hvd.rank()), 3, scale=2) == 6
    assert calls == [0] and train.__name__ == "train"


@alone
def test_a_function_that_fails_says_how_to_start_again():
    @hvd.elastic.run
    def train(state):
        state.epoch += 1
        raise hvd.HorovodInternalError("gone")

    state = objects(epoch=0)
    with pytest.raises(hvd.HorovodInternalError, match="gone") as caught:
        train(state)
    assert state.epoch == 1
    assert caught.value.__notes__ == [elastic.HOW_TO_START_AGAIN]
