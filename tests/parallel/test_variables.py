"""broadcast_variables: the values of one rank in the variables of all."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, normal, values

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError


def of_tensorflow(rank):
    return [
        tf.Variable(values(rank, (2, 3), "float64", "a")),
        tf.Variable(values(rank, (), "int64", "b")),
        tf.Variable(values(rank, (4,), "float32", "c")),
        tf.Variable(values(rank, (0,), "float32", "d")),
        tf.Variable(values(rank, (3,), "float64", "e")),
    ]


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_variables_get_the_values_of_the_root(context):
    for root in (0, sp.size() - 1):
        variables = of_tensorflow(sp.rank())
        context(lambda root=root, to=variables: sp.broadcast_variables(to, root) or [])()
        for got, expected in zip(variables, of_tensorflow(root), strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_variables_of_keras_and_its_optimizer():
    root, w = sp.size() - 1, keras.Variable(normal(sp.rank(), (2, 3), "w"))
    optimizer = keras.optimizers.Adam(10.0 ** -(sp.rank() + 1))
    optimizer.build([w])
    optimizer.iterations.assign(sp.rank() + 7)
    sp.broadcast_variables([w, *optimizer.variables], root)
    np.testing.assert_allclose(w, normal(root, (2, 3), "w"), 1e-6)
    assert int(optimizer.iterations) == root + 7
    assert float(optimizer.learning_rate) == pytest.approx(10.0 ** -(root + 1))


def test_none_at_all():
    sp.broadcast_variables([])


@pytest.mark.ranks(least=2, reason="needs several ranks")
def test_other_variables_on_one_rank_are_an_error_on_all():
    variables = [tf.Variable(tf.zeros([5, 1])), tf.Variable(tf.zeros([1, 7]))]
    if sp.rank() == 0:
        variables.reverse()
    with pytest.raises(CollectiveMismatchError, match="2 tensors of shapes"):
        sp.broadcast_variables(variables)
