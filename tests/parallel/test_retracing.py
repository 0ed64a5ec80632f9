"""A rank may trace a function again, alone, and be in another context than the others."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import normal, normals

import sciml_par.parallel as sp

pytestmark = pytest.mark.ranks(
    most=3, reason="the last rank differs from the others, which are two"
)

BATCHES, ROWS, LAST_ROWS = 4, 8, 5


def batch(rank, number):
    """[n, 3]; the third batch of the last rank is shorter, as that of a data set may be."""
    rows = LAST_ROWS if rank == sp.size() - 1 and number == 2 else ROWS
    return normal(rank, (rows, 3), f"batch {number}")


def gradient(x, w):
    """∇ mean (x w)², for the reference."""
    return 2 * x.T @ (x @ w) / len(x)


@pytest.mark.parametrize("retrace", ({}, {"reduce_retracing": True}, {"jit_compile": True}))
def test_a_shorter_batch_on_one_rank(retrace):
    w = tf.Variable(tf.ones([3, 1], tf.float64))

    @tf.function(**retrace)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, w) ** 2)
        (g,) = sp.DistributedGradientTape(tape).gradient(loss, [w])
        w.assign_sub(0.05 * g)

    expected = np.ones((3, 1))
    for number in range(BATCHES):
        step(tf.constant(batch(sp.rank(), number)))
        mean = np.mean([gradient(batch(r, number), expected) for r in range(sp.size())], axis=0)
        expected = expected - 0.05 * mean
    np.testing.assert_allclose(w.numpy(), expected, 1e-12)


def test_slices_of_a_shorter_batch_on_one_rank():
    """In a plain graph the ranks tell each other their rows when it runs, not when it is traced."""
    table = tf.Variable(tf.zeros([10, 2], tf.float64))

    @tf.function
    def step(indices):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, indices))
        (g,) = sp.DistributedGradientTape(tape, sp.Sum).gradient(loss, [table])
        table.scatter_add(g)

    expected = np.zeros((10, 2))
    for number in range(BATCHES):
        indices = [np.arange(len(batch(r, number))) + r for r in range(sp.size())]
        step(tf.constant(indices[sp.rank()] % 10))
        for each in indices:
            np.add.at(expected, each % 10, 1.0)
    np.testing.assert_array_equal(table.numpy(), expected)


def test_rows_that_one_rank_traces_for_alone():
    """The last rank has traced before, with the same rows; the others have not."""
    run = tf.function(lambda x: [sp.allgather(x), *sp.fused_allgather([x, 2 * x])])
    x = tf.fill([sp.rank() + 1], float(sp.rank()))
    if sp.rank() == sp.size() - 1:
        run.get_concrete_function(tf.TensorSpec(x.shape))
    everyone = np.repeat(np.arange(sp.size()), np.arange(sp.size()) + 1)
    for got, factor in zip(run(x), (1, 1, 2), strict=True):
        np.testing.assert_array_equal(got.numpy(), factor * everyone)


def in_a_session(function):
    def run(x):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(function(tf.constant(x.numpy())))

    return run


CONTEXTS = (
    lambda function: function,
    tf.function,
    in_a_session,
    lambda function: tf.function(function, input_signature=[tf.TensorSpec([None, 2], tf.float64)]),
)


@pytest.mark.parametrize("shift", range(2))
def test_another_context_on_each_rank(shift):
    """The same collectives in the same order: eagerly, in a graph, in a Session."""
    x, size = normals((2 * sp.size(), 2), "contexts"), sp.size()

    def program(x):
        rows, received = sp.alltoall(x)
        slices = tf.IndexedSlices(x, tf.range(tf.shape(x)[0]), tf.shape(x))
        return [
            sp.allreduce(x, sp.Sum),
            sp.allgather(x),
            sp.broadcast(x, size - 1),
            sp.reducescatter(x, sp.Max),
            rows,
            *sp.fused_allreduce([x, x[0]], sp.Sum),
            sp.allreduce(slices, sp.Sum).values,
        ]

    results = CONTEXTS[(sp.rank() + shift) % len(CONTEXTS)](program)(tf.constant(x[sp.rank()]))
    total, mine = x.sum(axis=0), slice(2 * sp.rank(), 2 * sp.rank() + 2)
    expected = [
        total,
        np.concatenate(x),
        x[-1],
        x.max(axis=0)[mine],
        np.concatenate(x[:, mine]),
        total,
        total[0],
        np.concatenate(x),
    ]
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, 1e-12)


def test_compiled_on_one_rank_only():
    x = normals((6,), "compiled on one")

    def program(x):
        y = sp.allreduce(x, sp.Sum)
        return [y, *sp.fused_allreduce([y, x[:2]]), sp.broadcast(x, 0)]

    run = tf.function(program, jit_compile=True) if sp.rank() == 0 else program
    for _ in range(2):
        results = run(tf.constant(x[sp.rank()]))
    total = x.sum(axis=0)
    for got, wanted in zip(results, (total, total, x.mean(axis=0)[:2], x[0]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, 1e-12)
