"""Eager tensors of some hundred kilobytes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import all_values, values

import sciml_par.parallel as sp

ROWS = 12 * 4000


@pytest.fixture
def x():
    """This rank's tensor, [ROWS, 2], and a copy of its elements."""
    array = values(sp.rank(), (ROWS, 2), "float32", "long")
    return tf.constant(array), array


@pytest.fixture
def everyone():
    return all_values((ROWS, 2), "float32", "long")


def test_allreduce(x, everyone):
    tensor, array = x
    y = sp.allreduce(tensor, sp.Sum)
    np.testing.assert_array_equal(y, everyone.sum(0))
    np.testing.assert_array_equal(tensor, array)


def test_broadcast(x, everyone):
    root = sp.size() - 1
    np.testing.assert_array_equal(sp.broadcast(x[0], root), everyone[root])


def test_allgather(x, everyone):
    np.testing.assert_array_equal(sp.allgather(x[0]), everyone.reshape(-1, 2))


def test_alltoall(x, everyone):
    y, received = sp.alltoall(x[0])
    parts = everyone.reshape(sp.size(), sp.size(), -1, 2)
    np.testing.assert_array_equal(y, parts[:, sp.rank()].reshape(-1, 2))
    assert received == (ROWS // sp.size(),) * sp.size()


def test_results_share_no_memory(x):
    """Two results of the same call, and the input, are three tensors."""
    first = sp.allreduce(x[0], sp.Sum).numpy().copy()
    kept = sp.allreduce(x[0], sp.Sum)
    sp.allreduce(x[0] + 1, sp.Sum)
    np.testing.assert_array_equal(kept, first)
