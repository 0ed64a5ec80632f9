"""Results stay as they are, whatever collectives follow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import THREE_CONTEXTS, all_values, values

import sciml_par.parallel as sp
from sciml_par.parallel.tensors.buffer_pool import result_memory

SHAPES = ((), (0,), (16,), (3, 5), (0, 4))
ROUNDS = 6


@pytest.mark.ranks(least=2, most=2, reason="it is about the memory of a rank")
@pytest.mark.parametrize("dtype", ("bool", "bfloat16", "int32", "float64"))
def test_results_outlive_later_collectives(dtype):
    """By allreduce, fused_allreduce and allgather, eagerly and in a graph."""
    collect = {
        "max": lambda xs: [sp.allreduce(x, sp.Max) for x in xs],
        "fused": lambda xs: sp.fused_allreduce(xs, sp.Max),
        "rows": lambda xs: [sp.allgather(x) for x in xs[1:]],
    }
    in_graph = tf.function(collect["max"])
    found, expected = [], []
    for i in range(ROUNDS):
        xs = [tf.constant(values(sp.rank(), s, dtype, f"{s}{i}")) for s in SHAPES]
        everyone = [all_values(s, dtype, f"{s}{i}") for s in SHAPES]
        largest = [np.maximum.reduce(x, axis=0) for x in everyone]
        found += [*collect["max"](xs), *collect["fused"](xs), *collect["rows"](xs), *in_graph(xs)]
        rows = [x.reshape(-1, *s[1:]) for s, x in zip(SHAPES[1:], everyone[1:], strict=True)]
        expected += [*largest, *largest, *rows, *largest]
    for y, right in zip(found, expected, strict=True):
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.numpy(), right)


@pytest.mark.ranks(least=2, reason="one rank carries nothing")
def test_memory_is_used_again():
    x = tf.fill([5000], float(sp.rank()))
    for _ in range(3):
        y = sp.allreduce(x, sp.Sum)
    before = result_memory().kept
    for _ in range(20):
        y = sp.allreduce(x, sp.Sum)
    assert result_memory().kept == before
    np.testing.assert_array_equal(y, sum(range(sp.size())))


def test_a_result_feeds_the_next():
    """y ← allreduce(y) reads the memory that would be used again."""
    y = tf.range(2000, dtype=tf.float32) + sp.rank()
    for _ in range(10):
        y = sp.allreduce(y, sp.Average)
    np.testing.assert_allclose(y, np.arange(2000) + (sp.size() - 1) / 2, rtol=1e-5)


def odd_views(shape, tag):
    """Views of NumPy's that lie in memory otherwise than their elements follow each other."""
    x = values(sp.rank(), (2 * shape[0], shape[1]), "float64", tag)
    return x[::2], x[shape[0] :][::-1], np.asfortranarray(x[: shape[0]]), x[:, ::-1][1::2]


@pytest.mark.parametrize("context", THREE_CONTEXTS)
def test_views_of_numpy_that_are_not_contiguous(context):
    """And slices of tensors, which lie at addresses that suit nobody."""
    shape = (sp.size() + 1, 3)
    views = odd_views(shape, "views")
    run = context(
        lambda *xs: [
            f(x)
            for x in xs
            for f in (sp.allgather, lambda x: sp.allreduce(x, sp.Sum), sp.broadcast)
        ]
    )
    whole = tf.constant(views[0])
    results = run(*views, whole[1:], whole[:, 1:])
    slices = [whole.numpy()[1:], whole.numpy()[:, 1:]]
    everyone = sp.current_world().communicator.allgather_object([*map(np.array, views), *slices])
    for i in range(len(views) + 2):
        each = [theirs[i] for theirs in everyone]
        for y, right in zip(
            results[3 * i : 3 * i + 3], (np.concatenate(each), sum(each), each[0]), strict=True
        ):
            np.testing.assert_array_equal(y, right)


def test_a_session_is_fed_with_views_of_numpy():
    views = odd_views((4, 3), "session")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [4, 3])
        y = sp.allgather(x)
        found = [session.run(y, {x: view}) for view in views]
    everyone = sp.current_world().communicator.allgather_object(list(map(np.array, views)))
    for i, each in enumerate(found):
        np.testing.assert_array_equal(each, np.concatenate([theirs[i] for theirs in everyone]))
