"""The gradients of the collectives as Horovod defines them, which are not all the adjoints."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd

CONTEXTS = pytest.mark.parametrize(
    "context",
    (lambda f: f, tf.function, tf.function(jit_compile=True)),
    ids=("eager", "graph", "compiled"),
)
P = hvd.size()
RANK = hvd.rank()


def incoming(rank: int, *shape: int) -> np.ndarray:
    """The gradient that comes in on a rank."""
    return np.random.default_rng([rank, 7]).normal(size=shape)


def mean(*shape: int) -> np.ndarray:
    return np.mean([incoming(rank, *shape) for rank in range(P)], axis=0)


def gradients(collective, context, shapes, given) -> list[np.ndarray]:
    """By tensors of these shapes, of Σ ḡ · y, with ḡ as given for each y."""

    def run(*xs):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            ys = collective(list(xs))
            loss = tf.add_n([tf.reduce_sum(y * g) for y, g in zip(ys, given, strict=True)])
        return tape.gradient(loss, xs)

    values = [np.random.default_rng([RANK, 2]).normal(size=shape) for shape in shapes]
    return [np.asarray(g) for g in context(run)(*map(tf.constant, values))]


@CONTEXTS
def test_of_allgather(context):
    rows = [(rank + 1, 2) for rank in range(P)]
    total = (sum(r for r, _ in rows), 2)
    first = sum(r for r, _ in rows[:RANK])
    mine = slice(first, first + RANK + 1)
    (found,) = gradients(
        lambda xs: [hvd.allgather(xs[0])], context, [rows[RANK]], [incoming(RANK, *total)]
    )
    np.testing.assert_allclose(found, mean(*total)[mine], 1e-12)
    both = [incoming(RANK, *total), 2 * incoming(RANK, *total)]
    one, two = gradients(hvd.grouped_allgather, context, [rows[RANK]] * 2, both)
    np.testing.assert_allclose(one, mean(*total)[mine], 1e-12)
    np.testing.assert_allclose(two, 2 * mean(*total)[mine], 1e-12)


@CONTEXTS
@pytest.mark.parametrize("root", (0, P - 1))
def test_of_broadcast(context, root):
    (found,) = gradients(
        lambda xs: [hvd.broadcast(xs[0], root)], context, [(3,)], [incoming(RANK, 3)]
    )
    np.testing.assert_allclose(found, mean(3) if root == RANK else np.zeros(3), 1e-12)


@CONTEXTS
@pytest.mark.parametrize("op", (hvd.Sum, hvd.Average))
def test_of_reducescatter(context, op):
    shape = (2 * P + 1, 2)  # one more on rank 0
    rows = [2 + (rank == 0) for rank in range(P)]
    everyone = np.concatenate([incoming(rank, rows[rank], 2) for rank in range(P)])
    expected = everyone * (P if op is hvd.Sum else 1)
    mine = incoming(RANK, rows[RANK], 2)
    factors = {"prescale_factor": 3.0, "postscale_factor": 0.5}
    (found,) = gradients(
        lambda xs: [hvd.reducescatter(xs[0], op=op, **factors)], context, [shape], [mine]
    )
    np.testing.assert_allclose(found, 1.5 * expected, 1e-12)
    one, two = gradients(
        lambda xs: hvd.grouped_reducescatter(xs, op=op), context, [shape] * 2, [mine, 2 * mine]
    )
    np.testing.assert_allclose(one, expected, 1e-12)
    np.testing.assert_allclose(two, 2 * expected, 1e-12)


@CONTEXTS
def test_of_alltoall(context):
    splits = [RANK + 1] * P
    received = sum(range(1, P + 1))
    everyone = [incoming(rank, received) for rank in range(P)]  # rows of rank 0 first, then 1, …
    first = sum(range(1, RANK + 1))
    expected = np.concatenate([each[first : first + RANK + 1] for each in everyone])
    (found,) = gradients(
        lambda xs: [hvd.alltoall(xs[0], splits)[0]], context, [(P * (RANK + 1),)], [everyone[RANK]]
    )
    np.testing.assert_array_equal(found, expected)


OPERATIONS = {
    hvd.Sum: np.sum,
    hvd.Average: np.mean,
    hvd.Min: np.min,
    hvd.Max: np.max,
    hvd.Product: np.prod,
}


@CONTEXTS
@pytest.mark.parametrize("op", OPERATIONS)
def test_of_allreduce(context, op):
    def reduced(factor: float, scale: float) -> np.ndarray:
        everyone = [scale * factor * incoming(rank, 3) for rank in range(P)]
        return OPERATIONS[op](everyone, axis=0)

    (found,) = gradients(
        lambda xs: [hvd.allreduce(xs[0], op=op, prescale_factor=2.0, postscale_factor=0.25)],
        context,
        [(3,)],
        [incoming(RANK, 3)],
    )
    np.testing.assert_allclose(found, 0.25 * reduced(1, 2.0), 1e-12)
    given = [incoming(RANK, 3), 2 * incoming(RANK, 3)]
    one, two = gradients(lambda xs: hvd.grouped_allreduce(xs, op=op), context, [(3,)] * 2, given)
    np.testing.assert_allclose(one, reduced(1, 1.0), 1e-12)
    np.testing.assert_allclose(two, reduced(2, 1.0), 1e-12)


def test_of_adasum():
    """Orthogonal gradients are added, parallel ones averaged."""
    for given, expected in ((np.eye(P)[RANK], np.ones(P)), (np.ones(P), np.ones(P))):
        (found,) = gradients(
            lambda xs: [hvd.allreduce(xs[0], op=hvd.Adasum)], lambda f: f, [(P,)], [given]
        )
        np.testing.assert_allclose(found, expected, 1e-12)


def test_of_slices():
    def collective(xs):
        slices = tf.IndexedSlices(xs[0], tf.constant([RANK]), dense_shape=[P, 2])
        return [tf.convert_to_tensor(hvd.allreduce(slices, op=hvd.Sum))]

    (found,) = gradients(collective, lambda f: f, [(1, 2)], [incoming(RANK, P, 2)])
    np.testing.assert_allclose(found, mean(P, 2)[RANK : RANK + 1], 1e-12)


@CONTEXTS
def test_of_variables_through_two_collectives(context):
    """A gradient of a gradient: L = Σ (mean of w²)³ over the ranks."""
    w = tf.Variable(float(RANK + 1), dtype=tf.float64)

    def run():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = hvd.allreduce(w**2)
            first = inner.gradient(y, w)  # the mean over the ranks of 2w
        return first, outer.gradient(first, w)

    first, second = context(run)()
    np.testing.assert_allclose(first, 2.0 * (RANK + 1))
    np.testing.assert_allclose(second, 2.0)


@CONTEXTS
def test_of_a_gradient_by_what_comes_in(context):
    """∂/∂ḡ of the gradient is the same allreduce once more."""
    second = tf.constant(incoming(RANK, 3))

    def run():
        x, coming = tf.ones([3], tf.float64), tf.ones([3], tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(coming)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = hvd.allreduce(x, op=hvd.Max)
            first = inner.gradient(y, x, coming)
        return outer.gradient(first, coming, second)

    everyone = [incoming(rank, 3) for rank in range(P)]
    np.testing.assert_allclose(context(run)(), np.max(everyone, axis=0), 1e-12)


def test_in_a_graph_of_tensorflow_1():
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float64, [None, 2])  # the number of rows is open
        y = hvd.allgather(x)
        weights = v1.placeholder(tf.float64, [None, 2])
        gradient = tf.gradients(y, x, grad_ys=weights)[0]
        total = sum(range(1, P + 1))
        feed = {x: np.ones([RANK + 1, 2]), weights: incoming(RANK, total, 2)}
        found = session.run(gradient, feed)
    first = sum(range(1, RANK + 1))
    np.testing.assert_allclose(found, mean(total, 2)[first : first + RANK + 1], 1e-12)


def test_integers_have_none():
    x = tf.constant([RANK])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = hvd.broadcast(hvd.allgather(x), 0)
    np.testing.assert_array_equal(y, range(P))
    assert tape.gradient(y, x) is None
