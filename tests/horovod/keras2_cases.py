"""The facade with Keras 2, on two ranks started by tests/integration/test_horovod_keras.py.

By hand: TF_USE_LEGACY_KERAS=1 mpirun -np 2 python -m pytest tests/horovod/keras2_cases.py
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import sciml_par.horovod.keras as by_keras
import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization

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


@kinds
def test_fit_is_that_of_the_whole_batch_and_saves_a_plain_model(kind, tmp_path):
    model = model_of(hvd.DistributedOptimizer(kind.Adam(0.1)), run_eagerly=False)
    fit(model, inputs(sp.rank()))
    serial = model_of(kind.Adam(0.1))
    fit(serial, everyones_inputs())
    for ours, theirs in zip(model.get_weights(), serial.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
    assert_alike_on_all_ranks(model)
    assert int(model.optimizer.iterations) == 3
    model.save(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5").optimizer
    assert type(loaded) is kind.Adam and int(loaded.iterations) == 3


@kinds
def test_a_compiled_fit_with_clipping(kind):
    optimizer = hvd.DistributedOptimizer(kind.SGD(0.1, clipnorm=0.5))
    model = model_of(optimizer, run_eagerly=False, jit_compile=True)
    fit(model, inputs(sp.rank()))
    serial = model_of(kind.SGD(0.1, clipnorm=0.5))
    fit(serial, everyones_inputs())
    for ours, theirs in zip(model.get_weights(), serial.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


@kinds
def test_gradients_are_reduced_once(kind):
    v = new_variable()
    optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), op=hvd.Sum)
    optimizer.apply_gradients([(mine(), v)])
    np.testing.assert_allclose(v, -TOTAL)

    def loss():
        return tf.reduce_sum(v) * (sp.rank() + 1.0)

    for compute in (optimizer.compute_gradients, optimizer._compute_gradients):
        v.assign([0.0, 0.0])
        ((gradient, variable),) = compute(loss, [v])
        np.testing.assert_allclose(gradient, TOTAL)
        optimizer.apply_gradients([(tf.clip_by_value(gradient, 0.0, 1.0), variable)])
        np.testing.assert_allclose(v, -1.0)
    optimizer.minimize(loss, [v])
    np.testing.assert_allclose(v, -1.0 - TOTAL)
    # Keras' word for gradients that the program has combined already.
    optimizer.apply_gradients([(mine(), v)], experimental_aggregate_gradients=False)
    np.testing.assert_allclose(v, -1.0 - TOTAL - (sp.rank() + 1))


@kinds
def test_what_is_made_of_the_configuration_reduces_too(kind):
    optimizer = hvd.DistributedOptimizer(kind.SGD(0.5, momentum=0.25), op=hvd.Sum)
    config = optimizer.get_config()
    again = optimizer.from_config(config)
    assert again.get_config() == config == kind.SGD(0.5, momentum=0.25).get_config()
    assert type(optimizer.__class__.from_config(config)) is kind.SGD  # as a saved one is read
    v = new_variable()
    again.apply_gradients([(mine(), v)])
    np.testing.assert_allclose(v, -0.5 * TOTAL)


@kinds
@pytest.mark.parametrize("average", (True, False))
def test_passes_with_sparse_and_local_variables(kind, average):
    shared, own, table = new_variable(), new_variable(), tf.Variable(tf.zeros([3, 2]))
    optimizer = hvd.DistributedOptimizer(
        kind.SGD(1.0), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    optimizer.register_local_var(own)

    @tf.function
    def step(factor):
        with tf.GradientTape() as tape:
            picked = tf.reduce_sum(tf.gather(table, [0, 2]))
            loss = factor * (tf.reduce_sum(shared) + tf.reduce_sum(own) + picked)
        variables = [shared, own, table]
        pairs = zip(tape.gradient(loss, variables), variables, strict=True)
        optimizer.apply_gradients(pairs)

    rank_and_one = tf.constant(sp.rank() + 1.0)
    for number in range(1, 6):
        step(rank_and_one)
        assert int(optimizer.iterations) == number
        assert int(optimizer._agg_helper.counter) == number % 2
        passes = number // 2 * (1 if average else 2)
        np.testing.assert_allclose(shared, [-passes * MEAN] * 2)
        np.testing.assert_allclose(own, [-passes * (sp.rank() + 1) / sp.size()] * 2)
        np.testing.assert_allclose(table[:, 0], [-passes * MEAN, 0.0, -passes * MEAN])


@kinds
def test_an_infinite_sum_of_passes_does_not_stay(kind):
    v = new_variable()
    optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), backward_passes_per_step=2)
    for factor in (float("inf"), 1.0):
        optimizer.apply_gradients([(mine(factor), v)])
    assert not np.isfinite(v).any()
    for each in (v, *getattr(optimizer, "momentums", ())):
        each.assign([0.0, 0.0])
    for _ in range(2):
        optimizer.apply_gradients([(mine(), v)])
    np.testing.assert_allclose(v, [-2 * MEAN] * 2)


@kinds
def test_schedules_and_functions_as_learning_rates(kind):
    decay = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
    rates = {"schedule": decay}
    if kind is keras.optimizers.legacy:
        rates["function"] = lambda: 0.5
    for name, rate in rates.items():
        v = new_variable()
        optimizer = hvd.DistributedOptimizer(kind.SGD(rate))
        for _ in range(2):
            optimizer.apply_gradients([(mine(), v)])
        np.testing.assert_allclose(v, [-MEAN * (1.5 if name == "schedule" else 1.0)] * 2)


@kinds
def test_an_optimizer_goes_on_where_it_stood(kind):
    x = inputs(sp.rank())
    serial = model_of(kind.SGD(0.01, momentum=0.5))
    fit(serial, everyones_inputs(), epochs=4)
    model = model_of(kind.SGD(0.01, momentum=0.5))
    fit(model, everyones_inputs(), epochs=2)
    model.compile(hvd.DistributedOptimizer(model.optimizer), loss="mse", run_eagerly=True)
    assert int(model.optimizer.iterations) == 2
    fit(model, x, epochs=2)
    for ours, theirs in zip(model.get_weights(), serial.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


@kinds
def test_ranks_overflow_together(kind):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0))
        model = model_of(optimizer)
        fit(model, inputs(sp.rank()))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert model.optimizer is optimizer  # compile has put nothing around it
    assert_alike_on_all_ranks(model)
    given = keras.mixed_precision.LossScaleOptimizer(kind.SGD(1.0), initial_scale=16.0)
    for passes in (1, 2):
        optimizer = hvd.DistributedOptimizer(given, backward_passes_per_step=passes)
        v = new_variable()
        overflowing = mine(float("inf") if sp.rank() == sp.size() - 1 else 1.0)
        for _ in range(passes):
            optimizer.apply_gradients([(overflowing, v)])
        np.testing.assert_array_equal(v, [0.0, 0.0])
        assert float(optimizer.loss_scale) == 8.0
        for _ in range(passes):
            optimizer.apply_gradients([(mine(), v)])
        np.testing.assert_allclose(v, [-passes * MEAN] * 2)


@kinds
def test_a_distributed_optimizer_is_outermost(kind):
    wrap = keras.mixed_precision.LossScaleOptimizer
    outside = wrap(hvd.DistributedOptimizer(kind.SGD(1.0)))
    v = new_variable()
    outside.minimize(lambda: tf.reduce_sum(v) * (sp.rank() + 1.0), [v])  # as `fit` does
    np.testing.assert_allclose(v, -MEAN)
    with pytest.raises(InputError, match="the other way round"):
        outside.apply_gradients([(mine(), v)])
    with pytest.raises(InputError, match="the other way round"):
        wrap(hvd.DistributedOptimizer(kind.SGD(1.0), backward_passes_per_step=2))
    with pytest.raises(InputError, match="distributed already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(kind.SGD(1.0)))


@kinds
def test_ranks_outside_of_a_process_set_keep_their_gradients(kind):
    last = hvd.add_process_set([sp.size() - 1]) if sp.size() > 1 else hvd.global_process_set
    optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), process_set=last, op=hvd.Sum)
    v = new_variable()
    optimizer.apply_gradients([(mine(), v)])
    np.testing.assert_allclose(v, [-(sp.rank() + 1.0)] * 2)
    if sp.size() > 1:
        hvd.remove_process_set(last)


@kinds
def test_local_layers(kind):
    layer = keras.layers.Dense(2, use_bias=False)
    model = model_of(keras.optimizers.SGD(1.0), layer)
    optimizer = by_keras.PartialDistributedOptimizer(
        kind.SGD(1.0), local_layers=layer, scale_local_gradients=False
    )
    weights = model.trainable_weights
    for weight in weights:
        weight.assign(tf.zeros(weight.shape))
    gradients = [tf.fill(weight.shape, sp.rank() + 1.0) for weight in weights]
    optimizer.apply_gradients(zip(gradients, weights, strict=True))
    np.testing.assert_allclose(weights[0], -(sp.rank() + 1.0))
    np.testing.assert_allclose(weights[1], -MEAN)


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


def test_what_cannot_be_scheduled_is_said():
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
    for kind in (keras.optimizers, keras.optimizers.legacy):
        with pytest.raises(InputError, match="schedule or a function"):
            fit(model_of(kind.SGD(decay)), inputs(0), callbacks=[callback])
        with pytest.raises(InputError, match="momentum_correction=False"):
            model = model_of(kind.SGD(0.1, momentum=0.5), steps_per_execution=3)
            fit(model, inputs(0), callbacks=[callback])


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


def test_variables_of_keras_2_are_broadcast():
    model = model_of("sgd")
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, float(sp.rank())))
    hvd.broadcast_variables(model.weights, root_rank=sp.size() - 1)
    for weight in model.get_weights():
        assert (weight == sp.size() - 1).all()


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
