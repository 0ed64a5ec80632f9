"""Callbacks, saved models, layers and states of Keras 2; see optimizer_cases.py."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from keras2_models import MEAN, RANKS, assert_alike_on_all_ranks, fit, inputs, kinds, model_of

import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization


class Own(keras.optimizers.legacy.Adam):
    """An optimizer that Keras does not know."""


@pytest.mark.parametrize("distributed", (True, False))
def test_a_loaded_model_goes_on_distributed(distributed, tmp_path):
    path = hvd.broadcast_object(str(tmp_path / "model.h5"))
    model = model_of(hvd.DistributedOptimizer(Own(0.125)))
    fit(model, inputs(sp.rank()))
    if sp.rank() == 0:
        model.save(path)
    sp.barrier()
    if distributed:
        objects = {"Own": lambda **config: hvd.DistributedOptimizer(Own(**config))}
        loaded = hvd.load_model(path, custom_objects=objects)
    else:
        loaded = hvd.load_model(path, custom_optimizers=[Own], legacy_opts=True)
    assert isinstance(loaded.optimizer, Own)
    state = [np.array(v) for v in model.optimizer.variables()]
    for before, after in zip(state, loaded.optimizer.variables(), strict=True):
        np.testing.assert_array_equal(before, after)
    for each in (model, loaded):
        fit(each, inputs(sp.rank()))
    assert_alike_on_all_ranks(loaded)
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5)


@kinds
def test_broadcast_gives_weights_and_state_but_those_of_local_variables(kind):
    root = sp.size() - 1
    local = keras.layers.Dense(2, use_bias=False)
    model = model_of(kind.SGD(0.25, momentum=0.5), local)
    fit(model, inputs(sp.rank()), epochs=1)
    state = model.optimizer.variables
    variables = [*model.weights, *(state() if callable(state) else state)]
    for i, variable in enumerate(variables):
        variable.assign(tf.cast(tf.fill(variable.shape, 10 * sp.rank() + i), variable.dtype))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root, local_variables=local.kernel)
    callback.set_model(model)
    callback.on_train_begin()
    mine = [i for i, v in enumerate(variables) if local.name + "/" in v.name]
    assert len(mine) == 2  # the kernel and its momentum
    for i, variable in enumerate(variables):
        rank = sp.rank() if i in mine else root
        np.testing.assert_array_equal(variable, tf.fill(variable.shape, float(10 * rank + i)))


class Recorder(keras.callbacks.Callback):
    """The learning rate of each step."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(tf.convert_to_tensor(self.model.optimizer.learning_rate)))


@kinds
def test_learning_rates_and_the_momentum_that_they_correct(kind):
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.layers.Input([1]), layer])
    model.compile(hvd.DistributedOptimizer(kind.SGD(0.1, momentum=0.5)), loss="mse")
    x = np.array([[1.0], [0.5], [2.0]], "float32")
    data = {"x": x, "y": np.ones_like(x), "batch_size": 1, "shuffle": False, "verbose": 0}
    model.fit(**data)
    recorder = Recorder()
    rise = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 1 + epoch, staircase=False, end_epoch=1
    )
    drop = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.2, start_epoch=1)
    model.fit(**data, epochs=2, callbacks=[rise, drop, recorder])

    rates = [0.1] * 3 + [0.1, 0.1 * 4 / 3, 0.1 * 5 / 3, 0.1, 0.1, 0.1]
    assert recorder.rates == pytest.approx(rates[3:], rel=1e-6)
    w = v = 0.0
    for i, rate in enumerate(rates):
        momentum = 0.5 * rate / rates[max(i - 1, 0)]
        v = momentum * v - rate * 2 * (w * x[i % 3, 0] - 1) * x[i % 3, 0]
        w += v
    assert model.get_weights()[0].item() == pytest.approx(w, rel=1e-5)
    assert float(tf.convert_to_tensor(model.optimizer.momentum)) == 0.5


@kinds
def test_the_callbacks_of_a_training(kind, tmp_path):
    model = model_of(hvd.DistributedOptimizer(kind.Adam(0.1 * sp.size())))
    for weight in model.weights:
        weight.assign_add(tf.fill(weight.shape, float(sp.rank())))
    best = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    best.filepath = str(tmp_path / "best.h5")
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1 * sp.size(), warmup_epochs=2),
        best,
    ]
    history = fit(model, inputs(sp.rank()), callbacks=callbacks).history
    assert hvd.allgather_object(history) == [history] * sp.size()
    assert history["lr"][-1] == pytest.approx(0.1 * sp.size())
    assert_alike_on_all_ranks(model)
    assert best_is_written(tmp_path) == (sp.rank() == 0)


def best_is_written(folder):
    return [each.name for each in folder.iterdir()] == ["best.h5"]


def test_batch_normalisation_over_all_ranks():
    rows = [2 + 3 * rank for rank in RANKS]  # uneven
    parts = [inputs(rank, rows[rank]) for rank in RANKS]
    sync = SyncBatchNormalization(momentum=0.5)
    whole = keras.layers.BatchNormalization(momentum=0.5)
    got = sync(parts[sp.rank()], training=True)
    expected = whole(np.concatenate(parts), training=True).numpy()
    begin = sum(rows[: sp.rank()])
    np.testing.assert_allclose(got, expected[begin : begin + rows[sp.rank()]], 1e-4, 1e-5)
    for ours, theirs in zip(sync.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5)
    model = model_of("sgd", sync)
    copy = keras.models.model_from_json(model.to_json())
    assert type(copy.layers[0]) is SyncBatchNormalization and copy.layers[0].momentum == 0.5
    images = tf.reshape(tf.cast(parts[sp.rank()], tf.float16), [-1, 1, 2, 1])
    assert SyncBatchNormalization(dtype="mixed_float16")(images, training=True).dtype == tf.float16


@kinds
def test_an_elastic_state(kind):
    model = model_of(hvd.DistributedOptimizer(kind.SGD(0.01, momentum=0.5)))
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, float(sp.rank())))
    state = hvd.elastic.KerasState(model, batch=20 + sp.rank(), epoch=10)
    state.sync()
    assert state.batch == 20 and all((w == 0).all() for w in model.get_weights())
    callbacks = [
        hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
    ]
    fit(model, inputs(sp.rank()), epochs=2, batch_size=2, callbacks=callbacks)
    state.commit()
    assert (state.batch, state.epoch) == (0, 12)
    kept = model.get_weights()
    fit(model, inputs(sp.rank()), epochs=1)
    state.restore()
    for before, after in zip(kept, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_graph_of_tensorflow_1():
    kind = keras.optimizers.legacy
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.keras.backend.set_session(session)
        start = keras.initializers.Constant(1.0 + sp.rank())
        layer = keras.layers.Dense(1, kernel_initializer=start, input_shape=(2,))
        model = keras.Sequential([layer])
        model.compile(hvd.DistributedOptimizer(kind.SGD(0.01, momentum=0.5)), "mse")
        callbacks = [
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(0.01, warmup_epochs=2),
        ]
        history = fit(model, inputs(sp.rank()), batch_size=3, epochs=3, callbacks=callbacks).history
        weights = model.get_weights()
        assert float(hvd.allreduce(1.0 + sp.rank())) == pytest.approx(MEAN)
        passes = hvd.DistributedOptimizer(kind.SGD(1.0), backward_passes_per_step=2)
        with pytest.raises(InputError, match="several passes"):
            passes.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])
    everyone = hvd.allgather_object((history, [w.tolist() for w in weights]))
    assert everyone == [everyone[0]] * sp.size()
    assert not np.allclose(weights[0], 1.0)
