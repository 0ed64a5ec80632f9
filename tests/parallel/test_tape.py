"""DistributedGradientTape against averages computed by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, normal, normals

import sciml_par.parallel as sp

WRAPS = pytest.mark.parametrize("context", EAGER_FIRST)


def mine(shape, tag):
    return tf.constant(normal(sp.rank(), shape, tag))


@WRAPS
@pytest.mark.parametrize("op", (sp.Average, sp.Sum))
def test_reduces_the_gradients(context, op):
    w, b = tf.Variable(tf.ones([3], tf.float64)), tf.Variable(tf.zeros([], tf.float64))

    def run(x):
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(w**2 * x) + b * x[0]
        return sp.DistributedGradientTape(inner, op).gradient(loss, [w, b])

    gradients = context(run)(mine((3,), "tape"))
    x = normals((3,), "tape")
    total = x.sum(axis=0) / (sp.size() if op is sp.Average else 1)
    np.testing.assert_allclose(gradients[0], 2 * total, 1e-13)
    np.testing.assert_allclose(gradients[1], total[0], 1e-13)


@WRAPS
def test_as_a_context_manager_of_its_own(context):
    w = tf.Variable([1.0, 2.0])

    def run(scale):
        with sp.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_sum(w) * scale
        return [tape.gradient(loss, w)]

    (gradient,) = context(run)(tf.constant(float(sp.rank())))
    np.testing.assert_allclose(gradient, [(sp.size() - 1) / 2] * 2)


@WRAPS
def test_none_stays_none_and_the_structure_is_kept(context):
    u, v = tf.Variable(1.0), tf.Variable(2.0)
    w = tf.Variable(3.0, dtype=tf.float64)

    def run(scale):
        with tf.GradientTape() as inner:
            loss = scale * u + tf.cast(w, tf.float32)
        sources = {"a": [u, v], "b": (w,)}
        gradients = sp.DistributedGradientTape(inner).gradient(loss, sources)
        assert gradients["a"][1] is None
        assert isinstance(gradients["b"], tuple)
        return [gradients["a"][0], gradients["b"][0]]

    a, b = context(run)(tf.constant(float(sp.rank())))
    assert a.numpy() == pytest.approx((sp.size() - 1) / 2)
    assert b.numpy() == 1.0 and b.dtype == tf.float64


def test_nothing_but_none():
    u, v = tf.Variable(1.0), tf.Variable(2.0)
    with tf.GradientTape() as inner:
        loss = 2 * u
    assert sp.DistributedGradientTape(inner).gradient(loss, [v]) == [None]


@WRAPS
def test_unconnected_gradients_can_be_zeros(context):
    u, v = tf.Variable(1.0), tf.Variable(2.0)

    def run():
        with tf.GradientTape() as inner:
            loss = 2 * u
        tape = sp.DistributedGradientTape(inner)
        return tape.gradient(loss, [u, v], unconnected_gradients=tf.UnconnectedGradients.ZERO)

    assert [g.numpy() for g in context(run)()] == [2.0, 0.0]


@WRAPS
@pytest.mark.parametrize("dense", (False, True))
def test_sparse_gradients(context, dense):
    table = tf.Variable(tf.ones([sp.size() + 1, 2]))

    def run():
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(tf.gather(table, [sp.rank(), sp.rank()]))
        tape = sp.DistributedGradientTape(inner, sp.Sum, sparse_as_dense=dense)
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices) != dense
        return [tf.convert_to_tensor(gradient)]

    (gradient,) = context(run)()
    expected = np.full((sp.size() + 1, 2), 2.0)
    expected[-1] = 0.0
    np.testing.assert_array_equal(gradient, expected)


def test_sparse_gradients_of_unknown_length_come_back_dense_from_compiled_functions():
    table = tf.Variable(tf.ones([sp.size() + 1, 2]))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(rows):
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(tf.gather(table, rows))
        return sp.DistributedGradientTape(inner, sp.Sum).gradient(loss, table)

    gradient = run(tf.fill([sp.rank() + 1], sp.rank()))
    expected = [[r + 1.0] * 2 for r in range(sp.size())] + [[0.0] * 2]
    np.testing.assert_array_equal(gradient, expected)


@WRAPS
def test_local_sources(context):
    u, v, w = (tf.Variable(1.0) for _ in range(3))

    def run(scale):
        with tf.GradientTape(persistent=True) as inner:
            loss = scale * (u + 2 * v + 3 * w)
        tape = sp.DistributedGradientTape(inner, local_sources=[u])
        tape.register_local_source(v)
        own, reduced = tape.get_local_and_global_gradients(loss, {"u": u, "rest": (w, v)})
        assert len(own) == 2 and len(reduced) == 1
        return [*tape.gradient(loss, [u, v, w]), *own, *reduced]

    got = context(run)(tf.constant(float(sp.rank())))
    mine, mean = sp.rank() / sp.size(), (sp.size() - 1) / 2
    np.testing.assert_allclose(got, [mine, 2 * mine, 3 * mean, 2 * mine, mine, 3 * mean])


@WRAPS
def test_a_persistent_tape_gives_several(context):
    w = tf.Variable(3.0)

    def run(scale):
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(scale)
            first, second = scale * w, scale * w**2
        tape = sp.DistributedGradientTape(inner)
        return [tape.gradient(first, w), tape.gradient(second, w), tape.gradient(first, scale)]

    results = context(run)(tf.constant(float(sp.rank())))
    mean = (sp.size() - 1) / 2
    np.testing.assert_allclose(results, [mean, 6 * mean, 3.0])


@WRAPS
def test_output_gradients(context):
    w = tf.Variable([1.0, 2.0])

    def run(seed):
        with tf.GradientTape() as inner:
            y = w**2
        return [sp.DistributedGradientTape(inner, sp.Sum).gradient(y, w, output_gradients=seed)]

    seeds = normals((2,), "seed").astype("float32")
    (gradient,) = context(run)(tf.constant(seeds[sp.rank()]))
    np.testing.assert_allclose(gradient, [2, 4] * seeds.sum(axis=0), 1e-5, 1e-6)


@WRAPS
def test_the_variables_of_a_keras_model(context):
    model = keras.Sequential([keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    model.build((None, 2))
    model.set_weights([normals(w.shape, str(i))[0] for i, w in enumerate(model.get_weights())])
    points = normals((4, 2), "points").astype("float32")

    def local(x):
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(model(x) ** 2)
        return inner, loss

    def run(x):
        inner, loss = local(x)
        return sp.DistributedGradientTape(inner, sp.Sum).gradient(loss, model.trainable_variables)

    got = context(run)(tf.constant(points[sp.rank()]))
    inner, loss = local(tf.constant(points.reshape(-1, 2)))  # the serial result on all points
    expected = inner.gradient(loss, model.trainable_variables)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_other_methods_are_the_inner_tapes():
    w, x = tf.Variable(2.0), tf.constant(3.0)
    with sp.DistributedGradientTape(tf.GradientTape()) as tape:
        tape.watch(x)
        y = w * x
    assert [v is w for v in tape.watched_variables()] == [True]
    assert tape.gradient(y, x).numpy() == 2.0
