"""Tensors of more than 2³¹ bytes and elements, through TensorFlow.

Not in the ordinary run; see CONTRIBUTING.md.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import compiled, eager, graph

import sciml_par.parallel as sp

N = (1 << 31) + (1 << 24) + 5
"""Elements of int8: 2.02 GiB."""

MARKED = (0, (1 << 31) - 1, 1 << 31, N - 1)
"""Where the values tell the elements apart."""

pytestmark = [pytest.mark.large, pytest.mark.timeout(600)]


def mine(n):
    """int8 [n] of the rank's number; at the marked places, others."""
    x = np.full(n, sp.rank() + 1, np.int8)
    for i, place in enumerate(MARKED):
        if place < n:
            x[place] = 10 * (i + 1) + sp.rank()
    return tf.convert_to_tensor(x)


def marks(y):
    return np.asarray(y)[list(MARKED)].tolist()


def is_constant(y, value):
    whole = np.asarray(y)
    return bool(whole.min() == whole.max() == value)


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_broadcast(context):
    (y,) = context(lambda x: [sp.broadcast(x, sp.size() - 1)])(mine(N))
    assert marks(y) == [10 * i + sp.size() - 1 for i in (1, 2, 3, 4)]
    assert is_constant(y[1 : MARKED[1]], sp.size())


@pytest.mark.parametrize("context", (eager, compiled))
def test_allreduce(context):
    (y,) = context(lambda x: [sp.allreduce(x, sp.Max)])(mine(N))
    assert marks(y) == [10 * i + sp.size() - 1 for i in (1, 2, 3, 4)]
    assert is_constant(y[1 : MARKED[1]], sp.size())


def test_allgather():
    """In all more than an int can say, and so from the last rank alone."""
    rows = N // sp.size() + sp.rank()
    y = sp.allgather(tf.fill([rows], tf.constant(sp.rank() + 1, tf.int8)))
    assert y.shape[0] == sum(N // sp.size() + r for r in range(sp.size()))
    assert is_constant(y[-rows if sp.rank() == sp.size() - 1 else -1 :], sp.size())
    assert is_constant(y[: N // sp.size()], 1)


def test_allgather_of_one_long_tensor():
    last = sp.size() - 1
    x = mine(N if sp.rank() == last else 3)
    y = np.asarray(sp.allgather(x))
    first = 3 * last
    assert y.shape == (N + first,)
    assert marks(y[first:]) == [10 * i + last for i in (1, 2, 3, 4)]


def test_alltoall():
    """From rank 0 to the last one; the others send a row to each."""
    size, rank = sp.size(), sp.rank()
    splits = [0] * (size - 1) + [N] if rank == 0 else [1] * size
    y, received = sp.alltoall(mine(sum(splits)), splits)
    assert list(received) == [(N if rank == size - 1 else 0), *[1] * (size - 1)]
    if rank == size - 1:
        assert marks(y) == [10, 20, 30, 40]


def test_reducescatter():
    (y,) = [sp.reducescatter(mine(N), sp.Max)]
    each, more = divmod(N, sp.size())
    assert y.shape[0] == each + (sp.rank() < more)
    if sp.rank() == sp.size() - 1:
        assert np.asarray(y)[-1] == 40 + sp.size() - 1
    assert is_constant(y[1:1000], sp.size())
