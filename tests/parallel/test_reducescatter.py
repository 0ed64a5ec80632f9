"""reducescatter against NumPy: even and uneven rows, and fewer rows than ranks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import (
    CONTEXTS,
    EAGER_FIRST,
    TYPE_CONTEXTS,
    all_values,
    compiled,
    eager,
    graph,
    normal,
    normals,
    numpy_type,
    values,
)
from reductions import CASES, assert_same, reduced, what_has_no_meaning
from selection import in_groups

import sciml_par.parallel as sp
from sciml_par.errors import InputError

ROWS = {
    "even": lambda size: 2 * size,
    "one too many": lambda size: 2 * size + 1,
    "one too few": lambda size: 3 * size - 1,
    "fewer than ranks": lambda size: size - 1,
    "one": lambda size: 1,
    "none": lambda size: 0,
}


def own_part(whole):
    """This rank's rows; the first ranks have one more where need be."""
    return np.array_split(whole, sp.size())[sp.rank()]


def scattered(shape, dtype, op, tag=""):
    """What reducescatter must give on this rank."""
    return own_part(reduced(all_values(shape, dtype, tag), op))


@in_groups("context, cases", TYPE_CONTEXTS, CASES)
def test_every_operation_on_every_type(context, cases):
    """Of uneven rows; all in one function, so that XLA compiles once a context."""
    shape = (2 * sp.size() + 1, 2)

    def every_case(*xs):
        return [sp.reducescatter(x, op) for x, (_, op) in zip(xs, cases, strict=True)]

    results = context(every_case)(
        *[tf.constant(values(sp.rank(), shape, dtype)) for dtype, _ in cases]
    )
    for result, (dtype, op) in zip(results, cases, strict=True):
        assert_same(result, scattered(shape, dtype, op), f"{op} of {dtype}")


@in_groups(
    "context, cases",
    CONTEXTS,
    [
        *((rows, *row) for rows in ROWS for row in (((), "float64"), ((2,), "float16"))),
        *((rows, (0,), "float32") for rows in ROWS),
        ("one too many", (2, 1, 3), "bfloat16"),
    ],
)
def test_every_number_of_rows_and_shape_of_a_row(context, cases):
    """Averages, of which MPI computes a sum, in types with and without arithmetic of MPI's."""
    shapes = [(ROWS[rows](sp.size()), *trailing) for rows, trailing, _ in cases]
    types = [dtype for _, _, dtype in cases]
    run = context(lambda *xs: [sp.reducescatter(x, sp.Average) for x in xs])
    results = run(
        *[tf.constant(values(sp.rank(), *each)) for each in zip(shapes, types, strict=True)]
    )
    for result, shape, dtype in zip(results, shapes, types, strict=True):
        assert_same(result, scattered(shape, dtype, sp.Average), f"{dtype} {shape}")


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_short_and_long_tensors(context):
    """On either side of 4 kB, and past what a message carries at once."""
    lengths = (7, 500, 513, 2000, 300_001)
    run = context(lambda *xs: [sp.reducescatter(x, sp.Sum) for x in xs])
    results = run(*[tf.constant(values(sp.rank(), (rows, 2), "float32")) for rows in lengths])
    for result, rows in zip(results, lengths, strict=True):
        assert_same(result, scattered((rows, 2), "float32", sp.Sum), f"{rows} rows")


def test_the_parts_are_those_of_allreduce():
    x = tf.constant(normal(sp.rank(), (11, 3), "parts"))
    together = sp.allgather(sp.reducescatter(x, sp.Sum))
    np.testing.assert_allclose(together, sp.allreduce(x, sp.Sum), 1e-13, 1e-13)


def test_average_is_the_default():
    result = sp.reducescatter(tf.constant(normal(sp.rank(), (5,), "default")))
    expected = own_part(normals((5,), "default").mean(axis=0))
    np.testing.assert_allclose(result, expected, 1e-14, 1e-15)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_half_precision_is_combined_in_float32(context):
    """4097 = 4096 + 1 is no float16; rounding after each addition would lose every 1."""
    ones = [4096.0] + [1.0] * (sp.size() - 1)
    rows = 2 * sp.size() + 1
    halves = ("float16", "bfloat16")
    run = context(lambda *xs: [sp.reducescatter(x, op) for x in xs for op in (sp.Sum, sp.Average)])
    results = run(*[tf.fill([rows], tf.constant(ones[sp.rank()], dtype)) for dtype in halves])
    part = own_part(np.full(rows, np.float32(sum(ones))))
    for dtype, total, mean in zip(halves, results[::2], results[1::2], strict=True):
        expected = part.astype(numpy_type(dtype))
        np.testing.assert_array_equal(total, expected, err_msg=dtype)
        expected = (part / np.float32(sp.size())).astype(numpy_type(dtype))
        np.testing.assert_array_equal(mean, expected, err_msg=dtype)


def test_extreme_integers():
    """Sums of 64 bits keep all of them, and small ones wrap around as NumPy's do."""
    big = np.array([[2**60 + rank, -rank, 1] for rank in range(sp.size())], np.int64)
    result = sp.reducescatter(tf.constant(big[sp.rank()]), sp.Sum)
    np.testing.assert_array_equal(result, own_part(big.sum(axis=0)))
    small = np.full((sp.size(), 2), 200, np.uint8)
    result = sp.reducescatter(tf.constant(small[sp.rank()]), sp.Sum)
    np.testing.assert_array_equal(result, own_part(small.sum(axis=0, dtype=np.uint8)))


def test_rows_may_change_from_call_to_call():
    for rows in (3, 0, 1, 8, 3):
        tag = f"{rows} rows"
        result = sp.reducescatter(values(sp.rank(), (rows, 2), "float64", tag), sp.Sum)
        assert_same(result, scattered((rows, 2), "float64", sp.Sum, tag), tag)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_values_may_change_where_rows_do_not(dtype):
    """A compiled call keeps its buffers; they must not keep what was in them."""
    run = tf.function(lambda x: sp.reducescatter(x, sp.Sum), jit_compile=True)
    for step in range(3):
        result = run(tf.constant(values(sp.rank(), (5, 2), dtype, f"{step}")))
        assert_same(result, scattered((5, 2), dtype, sp.Sum, f"{step}"), f"{step}")


def test_the_input_stays_as_it_was():
    x = tf.constant(normal(sp.rank(), (64,), "kept"))
    before = x.numpy().copy()
    for context in (eager, graph, compiled):
        y, kept = context(lambda x: [sp.reducescatter(x, sp.Sum), x + 0.0])(x)
        expected = own_part(normals((64,), "kept").sum(axis=0))
        np.testing.assert_allclose(y, expected, 1e-12, 1e-13)
        np.testing.assert_array_equal(kept, before)
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("context", CONTEXTS)
def test_groups_of_even_and_odd_ranks(context):
    group = sp.current_world().communicator.split(sp.rank() % 2)
    members = range(sp.rank() % 2, sp.size(), 2)
    x = tf.constant(normal(sp.rank(), (5,), "groups"))
    part, whole = context(
        lambda x: [sp.reducescatter(x, sp.Sum, communicator=group), sp.reducescatter(x, sp.Sum)]
    )(x)
    expected = normals((5,), "groups")[list(members)].sum(axis=0)
    mine = np.array_split(expected, len(members))[group.rank]
    np.testing.assert_allclose(part, mine, 1e-13, 1e-14)
    np.testing.assert_allclose(whole, own_part(normals((5,), "groups").sum(axis=0)), 1e-13, 1e-14)


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_a_scalar_is_refused(context):
    with pytest.raises(InputError, match=r"reducescatter: .*got a scalar. Reshape it to \[1\]"):
        context(lambda: [sp.reducescatter(tf.constant(1.0))])()


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
@what_has_no_meaning
def test_what_has_no_meaning(context, make, op, says):
    with pytest.raises(InputError, match=f"^reducescatter: .*{says}"):
        x = make()
        context(lambda: [sp.reducescatter(x, op)])()
