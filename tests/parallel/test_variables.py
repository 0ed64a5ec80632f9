"""broadcast_variables: the values of one rank in the variables of all."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from ranks import normal, values

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


@pytest.mark.parametrize("from_last", (False, True))
def test_variables_of_tensorflow(from_last):
    root = sp.size() - 1 if from_last else 0
    variables = of_tensorflow(sp.rank())
    sp.broadcast_variables(variables, root)
    for got, expected in zip(variables, of_tensorflow(root), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_variables_of_keras_and_its_optimizer():
    def model_of(rank):
        model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
        model.build((None, 2))
        model.set_weights([normal(rank, w.shape, str(w.shape)) for w in model.get_weights()])
        return model

    model, root = model_of(sp.rank()), sp.size() - 1
    optimizer = keras.optimizers.Adam(10.0 ** -(sp.rank() + 1))
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(sp.rank() + 7)
    sp.broadcast_variables([*model.variables, *optimizer.variables], root)
    for got, expected in zip(model.get_weights(), model_of(root).get_weights(), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert int(optimizer.iterations) == root + 7
    assert float(optimizer.learning_rate) == pytest.approx(10.0 ** -(root + 1))


@pytest.mark.ranks(least=2, most=2, reason="how a program is compiled does not depend on it")
def test_inside_a_function():
    variables = of_tensorflow(sp.rank())
    for compile_it in (False, True):
        root = sp.size() - 1 if compile_it else 0
        tf.function(
            lambda root=root: sp.broadcast_variables(variables, root), jit_compile=compile_it
        )()
        for got, expected in zip(variables, of_tensorflow(root), strict=True):
            np.testing.assert_array_equal(got.numpy(), expected.numpy())
        for variable, original in zip(variables, of_tensorflow(sp.rank()), strict=True):
            variable.assign(original)


def test_none_at_all():
    sp.broadcast_variables([])


@pytest.mark.ranks(least=2, reason="needs several ranks")
def test_other_variables_on_one_rank_are_an_error_on_all():
    variables = [tf.Variable(tf.zeros([5, 1])), tf.Variable(tf.zeros([1, 7]))]
    if sp.rank() == 0:
        variables.reverse()
    with pytest.raises(CollectiveMismatchError, match="2 tensors of shapes"):
        sp.broadcast_variables(variables)
