"""Tensors whose shape is known only when the graph runs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import all_values, normal, normals, same_on_all_ranks, values
from reductions import own_part

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(most=3, reason="what a graph knows is the same on four ranks")

ANY_ROWS = tf.TensorSpec([None, 2], tf.float64)
ANYTHING = tf.TensorSpec(None, tf.float64)


def traced(function, *specs):
    return tf.function(function, input_signature=specs or [ANY_ROWS])


def sent_rows():
    """Rank r sends r rows to rank 0, and one to every other."""
    return [sp.rank()] + [1] * (sp.size() - 1)


@pytest.mark.parametrize("spec", (ANY_ROWS, ANYTHING))
def test_every_collective_of_the_same_shape(spec):
    """For two shapes, by one trace."""

    def all_of_them(x):
        return [
            sp.allreduce(x, sp.Average),
            sp.allreduce(x, sp.Max, prescale_factor=2.0, compression=sp.Compression.fp16),
            sp.broadcast(x, sp.size() - 1),
            sp.reducescatter(x, sp.Sum),
            sp.allgather(x),
            *sp.fused_allreduce([x, tf.ones([3], tf.float64)], sp.Sum),
        ]

    run = traced(all_of_them, spec)
    for rows in (sp.size() + 1, 3):
        tag = f"{rows} rows"
        everyone = all_values((rows, 2), "float64", tag)
        total = everyone.sum(axis=0)
        expected = [total / sp.size(), 2 * everyone.max(axis=0), everyone[-1], own_part(total)]
        expected += [np.concatenate(everyone), total, [sp.size()] * 3]
        results = run(tf.constant(values(sp.rank(), (rows, 2), "float64", tag)))
        for result, each in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, each)
    assert run.experimental_get_tracing_count() == 1


def test_what_is_known_of_the_shape_is_kept():
    shapes = {}

    def note(x):
        shapes["allreduce"] = sp.allreduce(x).shape
        shapes["broadcast"] = sp.broadcast(x).shape
        shapes["allgather"] = sp.allgather(x).shape
        shapes["reducescatter"] = sp.reducescatter(x).shape
        y, received = sp.alltoall(x)
        shapes["alltoall"] = y.shape
        assert received.dtype == tf.int32 and received.shape == (sp.size(),)

    traced(note).get_concrete_function()
    assert {name: shape.as_list() for name, shape in shapes.items()} == dict.fromkeys(
        ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall"), [None, 2]
    )


def test_other_rows_on_every_rank():
    run = traced(sp.allgather)
    for more in (1, 0):
        shapes = [(rank + more, 2) for rank in range(sp.size())]
        expected = np.concatenate([normal(r, s, "rows") for r, s in enumerate(shapes)])
        result = run(tf.constant(normal(sp.rank(), shapes[sp.rank()], "rows")))
        np.testing.assert_array_equal(result, expected)


def test_splits_that_the_graph_computes():
    def exchange(x, splits):
        return sp.alltoall(x, splits + 0)

    size, rank = sp.size(), sp.rank()
    for spec in (ANY_ROWS, tf.TensorSpec([sum(sent_rows()), 2], tf.float64)):
        run = traced(exchange, spec, tf.TensorSpec([None], tf.int64))
        x = normal(rank, (sum(sent_rows()), 2), "splits")
        y, received = run(x, sent_rows())
        np.testing.assert_array_equal(received, [r if rank == 0 else 1 for r in range(size)])
        parts = []
        for r in range(size):
            first = 0 if rank == 0 else r + rank - 1
            count = r if rank == 0 else 1
            parts.append(normal(r, (r + size - 1, 2), "splits")[first : first + count])
        np.testing.assert_array_equal(y, np.concatenate(parts))


def test_even_splits_of_unknown_rows():
    y, received = traced(sp.alltoall)(normal(sp.rank(), (2 * sp.size(), 2), "even"))
    mine = slice(2 * sp.rank(), 2 * sp.rank() + 2)
    everyone = normals((2 * sp.size(), 2), "even")
    np.testing.assert_array_equal(y, np.concatenate([x[mine] for x in everyone]))
    np.testing.assert_array_equal(received, [2] * sp.size())


def everything(x):
    """A result of each collective and operation. x: [n, 2], the same n on every rank."""
    splits = tf.concat([tf.shape(x)[:1], tf.zeros([sp.size() - 1], tf.int32)], axis=0)
    return {
        "sum": sp.allreduce(x, sp.Sum),
        "average": sp.allreduce(x, postscale_factor=3.0),
        "max": sp.allreduce(x, sp.Max),
        "product": sp.allreduce(x, sp.Product),
        "broadcast": sp.broadcast(x, sp.size() - 1),
        "allgather": sp.allgather(x),
        "reducescatter": sp.reducescatter(x, sp.Min),
        "alltoall": sp.alltoall(x, splits)[0],
        "sum scattered": sp.reducescatter(x, sp.Sum),
        "product scattered": sp.reducescatter(x, sp.Product),
    }


def known(x, shape):
    return tf.ensure_shape(x, shape)


def forgotten(x, shape):
    return tf.raw_ops.PlaceholderWithDefault(input=x, shape=[None, *shape[1:]])


KNOWN = ((ANY_ROWS, known), (None, forgotten), (ANYTHING, known))


@pytest.mark.ranks(least=2, most=2, reason="what a graph knows does not depend on the number")
@pytest.mark.parametrize("of_x, of_gradient", KNOWN)
def test_gradients_of_which_more_or_less_is_known(of_x, of_gradient):
    """A graph may know the shape of a result's gradient but not that of the input, or vice versa.

    The last one leaves out alltoall, whose result has no known rank then.
    """
    rows = sp.size() + 1
    x = tf.constant(normal(sp.rank(), (rows, 2), "known"))
    shapes = {name: tuple(y.shape) for name, y in everything(x).items()}
    names = [name for name in shapes if of_x is not ANYTHING or name != "alltoall"]
    seeds = {name: tf.constant(normal(sp.rank(), shapes[name], f"seed {name}")) for name in names}

    def gradients(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            results = everything(x)
        return {
            name: tape.gradient(results[name], x, of_gradient(seeds[name], shapes[name]))
            for name in names
        }

    expected, results = {}, traced(gradients, of_x or tf.TensorSpec((rows, 2), tf.float64))(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ys = everything(x)
    for name in names:
        expected[name] = tape.gradient(ys[name], x, seeds[name])
        np.testing.assert_allclose(results[name], expected[name], 1e-12, err_msg=name)


def test_in_a_session():
    rows = sp.size() + 1
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [None, 2])
        y = sp.allreduce(x, sp.Sum)
        z = sp.allgather(x)
        (slope,) = tf.gradients([y * y], [x])
        mine = normal(sp.rank(), (rows, 2), "session")
        total, whole, gradient = session.run([y, z, slope], {x: mine})
    everyone = normals((rows, 2), "session")
    np.testing.assert_allclose(total, everyone.sum(axis=0), 1e-13)
    np.testing.assert_array_equal(whole, np.concatenate(everyone))
    np.testing.assert_allclose(gradient, 2 * sp.size() * everyone.sum(axis=0), 1e-13)


@pytest.mark.ranks(least=2, most=2, reason="test_order.py has more ranks")
def test_the_order_of_the_program_is_kept(transfers):
    """Known and unknown shapes take turns, none depends on another, also in the gradient."""

    def total(n, x):
        return tf.reduce_sum(sp.allreduce(tf.tile(x, [1, n]), sp.Sum))

    @tf.function
    def run(x, known):
        parts = [total(n, x if n % 3 else known) for n in range(1, 10)]
        return tf.add_n(parts[::-1])

    known = tf.constant(1.0, shape=[4, 1])
    run = run.get_concrete_function(tf.TensorSpec([None, 1], tf.float32), known)
    with tf.GradientTape() as tape:
        tape.watch(known)
        y = run(known, known)
    tape.gradient(y, known)
    seen = [request.row for request in transfers]
    assert seen[:9] == list(range(1, 10))
    assert sorted(seen[9:]) == list(range(1, 10))
    assert same_on_all_ranks([seen])


@pytest.mark.ranks(least=2, reason="one rank always agrees with itself")
def test_rows_that_differ_where_they_must_not():
    run = traced(lambda x: sp.allreduce(x, sp.Sum))
    sp.current_world().communicator.progress.ledger.clear()
    with pytest.raises(tf.errors.FailedPreconditionError) as error:
        run(tf.ones([3 if sp.rank() else 2, 2], tf.float64))
    for signature in ("rank 0: allreduce(float64 [2, 2], Sum)", ": allreduce(float64 [3, 2], Sum)"):
        assert signature in str(error.value)


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize(
    "collective",
    (
        *(sp.allreduce, sp.broadcast, sp.allgather, sp.reducescatter, sp.alltoall),
        lambda x: sp.fused_allgather([x, x]),
        lambda x: sp.allreduce(x, sp.Adasum),
    ),
)
def test_compiled_functions_refuse_them(collective):
    run = tf.function(
        collective, input_signature=[tf.TensorSpec([None], tf.float32)], jit_compile=True
    )
    with pytest.raises(InputError, match=r"shape is known .* got \(None,\)"):
        run(tf.ones(3))


@pytest.mark.ranks(most=1, reason="refused before anything travels")
def test_adasum_refuses_them():
    with pytest.raises(InputError, match=r"shape is known .* got \(None, 2\)"):
        traced(lambda x: sp.allreduce(x, sp.Adasum)).get_concrete_function()
