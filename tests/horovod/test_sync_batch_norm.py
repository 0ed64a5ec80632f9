"""SyncBatchNormalization against Keras' BatchNormalization of the batches of all ranks."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization

CHANNELS = 3
UP_TO_TWO = pytest.mark.ranks(least=2, most=2, reason="one rank has the whole batch")
LOCAL = pytest.mark.ranks(most=1, reason="concerns each rank separately")


def batch(rank: int, rows: int, *, mean: float = 2.0) -> np.ndarray:
    """The inputs of a rank, [rows, 4, C]."""
    rng = np.random.default_rng([rank, 7])
    return rng.normal(mean + rank, 1.0 + rank, size=(rows, 4, CHANNELS)).astype("float32")


def layers(shape, **options):
    """The layer under test and Keras' own, with the same γ and β."""
    pair = [SyncBatchNormalization(**options), keras.layers.BatchNormalization(**options)]
    for layer in pair:
        layer.build(shape)
        channels = layer.gamma.shape[0]
        layer.gamma.assign(np.linspace(0.5, 2.0, channels))
        layer.beta.assign(np.linspace(-1.0, 1.0, channels))
    return pair


def outputs_and_gradients(layer, x, seed):
    """y of a call in training, and the gradients of Σ y·seed by x, γ and β."""

    @tf.function
    def run(x, seed):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(y * seed)
        return [y, *tape.gradient(loss, [x, layer.gamma.value, layer.beta.value])]

    return [each.numpy() for each in run(tf.constant(x), tf.constant(seed))]


@pytest.mark.parametrize("axis", (-1, 1)[: 2 if sp.size() == 2 else 1])
def test_is_the_normalisation_of_the_whole_batch(axis):
    rows = [2 + 3 * rank for rank in range(sp.size())]  # uneven
    inputs = [batch(rank, n) for rank, n in enumerate(rows)]
    seeds = [np.cos(x) for x in inputs]
    mine = slice(sum(rows[: sp.rank()]), sum(rows[: sp.rank() + 1]))
    sync, whole = layers((None, 4, CHANNELS), axis=axis, momentum=0.5)

    got = outputs_and_gradients(sync, inputs[sp.rank()], seeds[sp.rank()])
    expected = outputs_and_gradients(whole, np.concatenate(inputs), np.concatenate(seeds))

    np.testing.assert_allclose(got[0], expected[0][mine], 1e-4, 1e-5)
    np.testing.assert_allclose(got[1], expected[1][mine], 1e-3, 1e-5)
    # Of γ and β each rank has the part of its rows.
    for one, all_of_it in zip(got[2:], expected[2:], strict=True):
        np.testing.assert_allclose(sp.allreduce(one, sp.Sum), all_of_it, 1e-4, 1e-4)
    for name in ("moving_mean", "moving_variance"):
        ours, theirs = (keras.ops.convert_to_numpy(getattr(each, name)) for each in (sync, whole))
        np.testing.assert_allclose(ours, theirs, 1e-5)
        everyone = sp.allgather(ours[np.newaxis]).numpy()
        assert (everyone == everyone[0]).all()  # bit for bit


def test_a_mask_and_a_rank_without_values():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4 * sp.size(), 5, CHANNELS)).astype("float32")
    mask = rng.integers(0, 2, size=x.shape[:2]).astype(bool)
    mask[:4] = sp.size() == 1  # rank 0 has none, unless it is alone
    mine = slice(4 * sp.rank(), 4 * sp.rank() + 4)
    sync, whole = layers((None, 5, CHANNELS))
    got = sync(x[mine], training=True, mask=tf.constant(mask[mine]))
    expected = whole(x, training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(got, expected[mine], 1e-4, 1e-5)
    assert np.isfinite(keras.ops.convert_to_numpy(sync.moving_variance)).all()


@UP_TO_TWO
def test_a_mean_far_from_zero_does_not_cost_the_variance():
    sync = SyncBatchNormalization(axis=-1, epsilon=1e-6)
    x = [batch(0, 64, mean=3000.0)[:, 0] - 0.5 * rank for rank in range(sp.size())]
    y = sync(x[sp.rank()], training=True).numpy()
    together = sp.allgather(y).numpy().astype("float64")
    np.testing.assert_allclose(together.mean(axis=0), 0.0, atol=2e-3)
    np.testing.assert_allclose(together.std(axis=0), 1.0, atol=2e-3)


@UP_TO_TWO
def test_mixed_precision():
    sync, whole = layers((None, CHANNELS), dtype="mixed_float16")
    x = [batch(rank, 8)[:, 0].astype("float16") for rank in range(sp.size())]
    y = sync(x[sp.rank()], training=True)
    assert y.dtype == tf.float16
    mine = slice(8 * sp.rank(), 8 * sp.rank() + 8)
    np.testing.assert_allclose(y, whole(np.concatenate(x), training=True)[mine], atol=5e-3)


@UP_TO_TWO
def test_a_compiled_fit_is_that_of_the_whole_batch():
    x = [batch(rank, 8)[:, 0] for rank in range(sp.size())]
    targets = [np.sin(each).sum(axis=1, keepdims=True) for each in x]

    def trained(layer, optimizer, x, y, **options):
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input([CHANNELS]), layer, dense])
        model.compile(optimizer, loss="mse", **options)
        model.fit(x, y, batch_size=len(x), epochs=2, verbose=0, shuffle=False)
        return model.get_weights()

    distributed = sp.DistributedOptimizer(keras.optimizers.SGD(0.05))
    mine = (x[sp.rank()], targets[sp.rank()])
    everything = (np.concatenate(x), np.concatenate(targets))
    got = trained(SyncBatchNormalization(), distributed, *mine, jit_compile=True)
    plain = keras.layers.BatchNormalization()
    expected = trained(plain, keras.optimizers.SGD(0.05), *everything, run_eagerly=True)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


@UP_TO_TWO
def test_inference_asks_nobody():
    sync, whole = layers((None, CHANNELS))
    before = sp.current_world().communicator.progress.sequence
    x = batch(0, 5)[:, 0]
    np.testing.assert_array_equal(sync(x, training=False), whole(x, training=False))
    assert sp.current_world().communicator.progress.sequence == before


@LOCAL
def test_comes_back_from_its_configuration():
    model = keras.Sequential(
        [keras.Input([CHANNELS]), SyncBatchNormalization(momentum=0.75), SyncBatchNormalization()]
    )
    copy = keras.models.model_from_json(model.to_json())
    assert [type(layer) for layer in copy.layers] == [SyncBatchNormalization] * 2
    assert copy.layers[0].momentum == 0.75


@LOCAL
def test_fused_is_refused():
    for fused in (True, None):
        with pytest.raises(InputError, match="fused=False"):
            SyncBatchNormalization(fused=fused)
