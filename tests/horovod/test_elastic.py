"""Elastic states as containers: saved, restored, and given to all ranks by rank 0."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
from sciml_par.horovod.common import elastic
from sciml_par.horovod.common.elastic import ObjectState

v1 = tf.compat.v1

pytestmark = pytest.mark.skipif(hvd.size() > 2, reason="the same on two ranks")


def objects(**kwargs) -> ObjectState:
    return ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, **kwargs)


def test_objects_are_kept_and_brought_back():
    state = objects(epoch=0, losses=[])
    state.epoch, state.losses = 3, [*state.losses, 0.5]
    state.save()
    state.epoch = 4
    state.losses.append(0.25)  # in place: what was kept must not change with it
    state.restore()
    assert (state.epoch, state.losses) == (3, [0.5])
    state.losses.append(0.125)
    state.restore()
    assert state.losses == [0.5]


def test_objects_of_rank_0_are_given_to_all():
    state = objects(epoch=hvd.rank(), losses=[hvd.rank()])
    state.epoch = 10 + hvd.rank()  # after the last save: not what is given
    state.sync()
    assert (state.epoch, state.losses) == (0, [0])
    objects().sync()


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
    state.sync()  # the variables as they are, the attributes as they were kept
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


def test_model_and_optimizer():
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.1 * (1 + hvd.rank()))
    model.compile(optimizer=optimizer, loss="mse")
    optimizer.build(model.trainable_variables)
    state = hvd.elastic.TensorFlowKerasState(model, epoch=hvd.rank())
    state.sync()
    everyone = hvd.allgather_object([w.tobytes() for w in model.get_weights()])
    assert all(each == everyone[0] for each in everyone)
    assert float(optimizer.learning_rate) == pytest.approx(0.1)
    start = model.get_weights()
    model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0)
    assert int(optimizer.iterations) == 1
    state.restore()
    for found, expected in zip(model.get_weights(), start, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert int(optimizer.iterations) == 0
    with pytest.raises(InputError, match="no weights yet"):
        hvd.elastic.TensorFlowKerasState(keras.Sequential([keras.layers.Dense(1)]), optimizer)


def test_a_function_is_run_once():
    calls = []

    @hvd.elastic.run
    def train(state, steps, *, scale):
        calls.append(state.epoch)
        return steps * scale

    assert train(objects(epoch=hvd.rank()), 3, scale=2) == 6
    assert calls == [0] and train.__name__ == "train"


def test_a_function_that_fails_says_how_to_go_on():
    @hvd.elastic.run
    def train(state):
        state.epoch += 1
        raise hvd.HorovodInternalError("gone")

    state = objects(epoch=0)
    with pytest.raises(hvd.HorovodInternalError, match="gone") as caught:
        train(state)
    assert state.epoch == 1
    assert caught.value.__notes__ == [elastic.HOW_TO_START_AGAIN]
