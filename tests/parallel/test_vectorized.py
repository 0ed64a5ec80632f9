"""Collectives in what TensorFlow's pfor converts: `tf.vectorized_map` and Jacobians of tapes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, compiled, eager, graph, normal, normals, on_two, to_the_next

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(
    least=2, most=3, reason="one rank transfers nothing; what pfor converts is the same on four"
)

CONTEXTS = pytest.mark.parametrize(
    "context", (eager, pytest.param(graph, marks=pytest.mark.long), on_two(compiled))
)

PASSES = 3
NOT_IN_JACOBIANS = ("reducescatter", "fused", "gathered together")
"""Where ranks have unequal numbers of elements, and so of passes; or pfor does not know slices."""


def known(y, shape):
    """y with the shape that a plain graph leaves open."""
    return tf.ensure_shape(y, shape)


def rows_of_this_rank(n):
    return len(np.array_split(np.empty(n), sp.size())[sp.rank()])


def every_collective(rows, context=eager):
    """{name: function of [rows, 2]}, nonlinear so that second derivatives do not vanish.

    In compiled functions with one reduction: pfor converts all of them alike.
    """
    whole, mine = (sp.size() * rows, 2), (rows_of_this_rank(rows), 2)
    found = {
        "allgather": lambda x: known(sp.allgather(x**2), whole) ** 2,
        "broadcast": lambda x: sp.broadcast(x**2, sp.size() - 1) ** 2,
        "alltoall": lambda x: known(to_the_next(x**2), x.shape) ** 2,
        "fused": lambda x: sum(sp.fused_allreduce([x**2, tf.reduce_sum(x**3, 0)], sp.Sum)),
        "gathered together": lambda x: sum(
            known(y, whole) for y in sp.fused_allgather([x**2, x**3])
        ),
        "adasum": lambda x: sp.allreduce(x**2, sp.Adasum),
    }
    for op in (sp.Product,) if context is compiled else (sp.Sum, sp.Product, sp.Max):
        found[f"allreduce {op.value}"] = lambda x, op=op: sp.allreduce(x**2, op) ** 2
        found[f"reducescatter {op.value}"] = lambda x, op=op: (
            known(sp.reducescatter(x**2, op), mine) ** 2
        )
    return found


def one_pass_at_a_time(function, x):
    return tf.stack([function(row) for row in tf.unstack(x)])


@CONTEXTS
def test_vectorized_map_is_a_loop(context):
    """Values and gradients of every collective, against one call for each row."""

    def run(over_rows, x):
        results = []
        for collective in every_collective(x.shape[1], context).values():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = over_rows(collective, x)
                loss = tf.reduce_sum(tf.sin(y))
            results += [y, tape.gradient(loss, x)]
        return results

    x = tf.constant(1 + 0.2 * normal(sp.rank(), (PASSES, 3, 2), "rows"))
    wanted = run(one_pass_at_a_time, x)
    found = context(lambda x: run(tf.vectorized_map, x))(x)
    names = [
        f"{what} of {name}" for name in every_collective(3, context) for what in ("y", "gradient")
    ]
    for name, y, truth in zip(names, found, wanted, strict=True):
        np.testing.assert_allclose(y, truth, 1e-12, 1e-12, err_msg=name)


@CONTEXTS
def test_second_derivatives_through_a_jacobian(context):
    """The gradient of ‖J‖², against rows of J that tapes compute one by one."""

    def jacobian(tape, y, _, x):
        return tape.jacobian(y, x)

    def row_by_row(tape, _, each, x):
        return tf.stack([tape.gradient(y, x) for y in each])

    def run(rows_of, x):
        results = []
        for name, collective in every_collective(x.shape[0], context).items():
            if name.startswith(NOT_IN_JACOBIANS):
                continue
            if context is compiled and not name.startswith("all"):
                continue
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape(persistent=True) as inner:
                    inner.watch(x)
                    y = tf.reshape(collective(x), [-1])
                    each = tf.unstack(y)
                rows = tf.convert_to_tensor(rows_of(inner, y, each, x))
                norm = tf.reduce_sum(rows**2)
            results += [rows, tf.convert_to_tensor(outer.gradient(norm, x))]
        return results

    x = tf.constant(1 + 0.2 * normal(sp.rank(), (2, 2), "Jacobian"))
    wanted = run(row_by_row, x)
    found = context(lambda x: run(jacobian, x))(x)
    for y, truth in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, truth, 1e-11, 1e-11)


def in_a_function(z):
    return tf.function(lambda z: sp.allreduce(z**2, sp.Sum))(z) ** 2


def in_a_branch(z):
    return tf.cond(tf.size(z) > 1, lambda: sp.allreduce(z**3, sp.Sum), lambda: z)


def in_a_loop(z):
    return tf.while_loop(
        lambda i, _: i < 2,
        lambda i, y: (i + 1, sp.allreduce(y**2)),
        (tf.constant(0), z),
        maximum_iterations=2,
    )[1]


def the_same_in_every_pass(z):
    return z * sp.allreduce(tf.ones_like(tf.stop_gradient(z)) * sp.rank(), sp.Sum)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_collectives_deep_in_the_pass(context):
    bodies = [in_a_function, the_same_in_every_pass]
    if context is not compiled:  # there TensorFlow has no gradient of what pfor makes of them
        bodies += [in_a_branch, in_a_loop]

    def run(over_rows, x):
        results = []
        for one in bodies:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = over_rows(one, x)
            results += [y, tf.convert_to_tensor(tape.gradient(y, x))]
        return results

    x = tf.constant(normal(sp.rank(), (PASSES, 2), "deep"))
    wanted = run(one_pass_at_a_time, x)
    for y, truth in zip(context(lambda x: run(tf.vectorized_map, x))(x), wanted, strict=True):
        np.testing.assert_allclose(y, truth, 1e-12, 1e-12)


def test_open_shapes():
    """A trace that knows neither rows nor passes."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.vectorized_map(
                lambda z: tf.reduce_sum(sp.allgather(z**2)) + sp.allreduce(z**2, sp.Sum)[0, 0], x
            )
        return [y, tf.convert_to_tensor(tape.gradient(y, x))]

    spec = tf.TensorSpec([None, None, 2], tf.float64)
    everyone = normals((PASSES, 4, 2), "open")
    x = everyone[sp.rank()]
    y, gradient = tf.function(run, input_signature=[spec])(tf.constant(x))
    squares = everyone**2
    np.testing.assert_allclose(y, squares.sum((0, 2, 3)) + squares[:, :, 0, 0].sum(axis=0))
    expected = 2 * x * sp.size()
    expected[:, 0, 0] *= 2
    np.testing.assert_allclose(gradient, expected, 1e-12)


@pytest.mark.ranks(least=2, reason="one rank exchanges nothing")
def test_rows_that_depend_on_the_pass_are_refused():
    def run(x, splits):
        return tf.vectorized_map(lambda each: sp.alltoall(each[0], each[1])[0], (x, splits))

    splits = tf.constant([[1] * sp.size()] * PASSES)
    with pytest.raises(InputError, match="alltoall: expected the same numbers of rows in each p"):
        run(tf.ones([PASSES, sp.size(), 2]), splits)
