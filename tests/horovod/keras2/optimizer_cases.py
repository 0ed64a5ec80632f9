"""Optimizers of Keras 2, on two ranks started by tests/integration/test_horovod_keras.py.

By hand: TF_USE_LEGACY_KERAS=1 mpirun -np 2 python -m pytest tests/horovod/keras2/*_cases.py
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from keras2_models import (
    MEAN,
    TOTAL,
    assert_alike_on_all_ranks,
    everyones_inputs,
    fit,
    inputs,
    kinds,
    mine,
    model_of,
    new_variable,
)

import sciml_par.horovod.keras as by_keras
import sciml_par.horovod.tensorflow.keras as hvd
import sciml_par.parallel as sp
from sciml_par.errors import InputError


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
    assert isinstance(loaded, kind.Adam) and int(loaded.iterations) == 3
    assert hasattr(loaded, "register_local_var")  # in the program that has saved it


def test_a_compiled_fit_with_clipping():
    kind = keras.optimizers.legacy
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
    assert config | {"name": "SGD"} == kind.SGD(0.5, momentum=0.25).get_config()
    for again in (
        optimizer.from_config(config),
        optimizer.__class__.from_config(config),  # as a saved one is read
        keras.optimizers.deserialize(keras.optimizers.serialize(optimizer)),
        copy.deepcopy(optimizer),
        pickle.loads(pickle.dumps(optimizer)),
        hvd.DistributedOptimizer(optimizer, op=hvd.Sum),
    ):
        assert again.get_config() == config
        v = new_variable()
        again.apply_gradients([(mine(), v)])
        np.testing.assert_allclose(v, -0.5 * TOTAL)


@pytest.mark.parametrize(
    "kind, average", ((keras.optimizers, True), (keras.optimizers.legacy, False))
)
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
