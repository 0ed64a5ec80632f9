"""Results stay as they are, whatever collectives follow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import THREE_CONTEXTS, values

import sciml_par.parallel as sp
from sciml_par.parallel.tensors.buffer_pool import result_memory


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
