"""The resources of a function's collectives live as long as the function, and no longer."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.parallel.execution.xla_call_sites import Role
from sciml_par.parallel.execution.xla_custom_call import bridge

pytestmark = pytest.mark.ranks(
    least=2, most=2, reason="call sites live on one rank, which needs another to have them"
)

X = (1.0, 2.0)


def call_sites():
    gc.collect()
    return len(bridge().sites._acts[Role.HOST])


def registered_gradients():
    from tensorflow.python.framework import ops

    return len(ops.gradient_registry._registry)


def total(x):
    return sp.allreduce(x, sp.Sum)


def test_traces_are_forgotten_with_their_functions():
    tf.function(total, jit_compile=True)(tf.constant(X))
    tf.function(total)(tf.constant(X))
    call_sites_before, gradients_before = call_sites(), registered_gradients()
    for compile_it in (False, True):
        for _ in range(5):
            function = tf.function(total, jit_compile=compile_it)
            function.get_concrete_function(tf.TensorSpec([1000]))
    del function
    assert call_sites() == call_sites_before
    assert registered_gradients() == gradients_before


def squares(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x) ** 2)
    return tape.gradient(y, x)


def gradient_of_squares():
    """∇ Σ_r (Σ_s x_s)² where all ranks have the same x."""
    return [2 * sp.size() ** 2 * x for x in X]


def test_a_function_inside_of_another_outlives_it():
    inner = tf.function(total, jit_compile=True)
    outer = tf.function(lambda x: 1.0 * inner(x))
    x = tf.constant(X)
    assert outer(x).numpy().tolist() == [sp.size() * each for each in X]
    del outer
    gc.collect()
    assert inner(x).numpy().tolist() == [sp.size() * each for each in X]
    assert squares(inner, x).numpy().tolist() == gradient_of_squares()


@pytest.mark.parametrize("compile_it", (False, True))
def test_a_function_that_another_calls_lives_on_in_it(compile_it):
    inner = [tf.function(total, jit_compile=True)]
    x = tf.constant(X)
    inner[0](x)  # traced separately, before the other
    outer = tf.function(lambda x: 1.0 * inner[0](x), jit_compile=compile_it)
    outer(x)
    inner.clear()
    gc.collect()
    assert outer(x).numpy().tolist() == [sp.size() * each for each in X]
    assert squares(outer, x).numpy().tolist() == gradient_of_squares()


def test_a_gradient_taken_when_only_the_tape_is_left():
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.function(total, jit_compile=True)(x) ** 2)
    gc.collect()
    assert tape.gradient(y, x).numpy().tolist() == gradient_of_squares()


def test_a_concrete_function_is_enough():
    concrete = tf.function(total, jit_compile=True).get_concrete_function(tf.TensorSpec([2]))
    gc.collect()
    assert concrete(tf.constant(X)).numpy().tolist() == [sp.size() * each for each in X]
