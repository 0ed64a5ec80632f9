"""alltoall against NumPy: even and uneven splits, empty ones, and splits that do not fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import (
    CONTEXTS,
    EAGER_FIRST,
    FLOATS,
    MOVED,
    TYPE_CONTEXTS,
    compiled,
    eager,
    graph,
    numpy_type,
    values,
)
from selection import in_groups

import sciml_par.parallel as sp
from sciml_par.errors import InputError

# How many rows rank `giver` has for rank `taker`.
ROWS = {
    "even": lambda giver, taker: 2,
    "uneven": lambda giver, taker: (giver + 2 * taker) % 4,
    "to the next": lambda giver, taker: 3 if taker == (giver + 1) % sp.size() else 0,
    "to oneself": lambda giver, taker: giver + 1 if taker == giver else 0,
    "all to the last": lambda giver, taker: giver + 1 if taker == sp.size() - 1 else 0,
    "all from the first": lambda giver, taker: 0 if giver else taker + 2,
    "none": lambda giver, taker: 0,
}


def splits_of(rows, giver):
    return [rows(giver, taker) for taker in range(sp.size())]


def input_of(rows, giver, trailing, dtype, tag=""):
    return values(giver, (sum(splits_of(rows, giver)), *trailing), dtype, tag)


def exchanged(rows, trailing, dtype, tag=""):
    """What alltoall must give on this rank: the rows, and how many come from each rank."""
    me, parts = sp.rank(), []
    for giver in range(sp.size()):
        start = sum(splits_of(rows, giver)[:me])
        x = input_of(rows, giver, trailing, dtype, tag)
        parts.append(x[start : start + rows(giver, me)])
    return np.concatenate(parts), tuple(len(part) for part in parts)


def mine(rows, trailing, dtype, tag=""):
    return tf.constant(input_of(rows, sp.rank(), trailing, dtype, tag))


ROW_SHAPES = ((), (2,), (0,), (2, 1, 3))


@in_groups("context, cases", CONTEXTS, list(itertools.product(MOVED, ROWS, ROW_SHAPES)))
def test_every_type_shape_and_distribution_of_rows(context, cases):
    """All in one function, so that XLA compiles once a context."""

    def every_case(*xs):
        results = []
        for (_, name, _), x in zip(cases, xs, strict=True):
            y, rows = sp.alltoall(x, splits_of(ROWS[name], sp.rank()))
            results += [y, tf.constant(rows) if isinstance(rows, tuple) else rows]
        return results

    results = context(every_case)(*[mine(ROWS[name], row, t) for t, name, row in cases])
    for result, received, case in zip(results[::2], results[1::2], cases, strict=True):
        dtype, name, row = case
        expected, rows = exchanged(ROWS[name], row, dtype)
        assert tuple(received.numpy()) == rows, f"{case}"
        assert result.dtype == dtype and result.shape == expected.shape, f"{case}"
        np.testing.assert_array_equal(result.numpy(), expected, f"{case}")


@pytest.mark.parametrize("context", TYPE_CONTEXTS)
def test_rows_are_split_evenly_by_default(context):
    results = context(lambda x, y: [sp.alltoall(x)[0], sp.alltoall(y)[0]])(
        mine(ROWS["even"], (2,), "float32"), mine(ROWS["none"], (2,), "float32")
    )
    for result, name in zip(results, ("even", "none"), strict=True):
        np.testing.assert_array_equal(result, exchanged(ROWS[name], (2,), "float32")[0])


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_short_and_long_tensors(context):
    """On either side of 4 kB, and past what a message carries at once."""
    numbers = [lambda giver, _, rows=rows: rows + giver for rows in (3, 400, 600, 200_001)]
    splits = [splits_of(number, sp.rank()) for number in numbers]

    def run(*xs):
        return [sp.alltoall(x, each)[0] for x, each in zip(xs, splits, strict=True)]

    results = context(run)(*[mine(number, (2,), "float32") for number in numbers])
    for result, number in zip(results, numbers, strict=True):
        expected = exchanged(number, (2,), "float32")[0]
        np.testing.assert_array_equal(result, expected, err_msg=f"{number(0, 0)} rows")


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_bit_arrives(dtype):
    """Also those of numbers that are none, and of both zeros."""
    kind = np.dtype(numpy_type(dtype))
    bits = np.random.default_rng(sp.rank()).integers(
        0, 256, size=4 * sp.size() * kind.itemsize, dtype=np.uint8
    )
    bits[: 2 * kind.itemsize] = [*[0xFF] * kind.itemsize, *[0] * (kind.itemsize - 1), 0x80]
    result, _ = sp.alltoall(tf.constant(bits.view(kind)))
    everyone = sp.current_world().communicator.allgather_object(bits)
    mine = [np.split(each, sp.size())[sp.rank()] for each in everyone]
    np.testing.assert_array_equal(result.numpy().view(np.uint8), np.concatenate(mine))


def test_twice_is_where_it_came_from():
    rows = ROWS["uneven"]
    x = mine(rows, (2,), "float64")
    there, received = sp.alltoall(x, splits_of(rows, sp.rank()))
    back, returned = sp.alltoall(there, received)
    np.testing.assert_array_equal(back, x)
    assert list(returned) == splits_of(rows, sp.rank())


def test_a_matrix_is_transposed():
    """Its rows on the ranks: what alltoall is called for in a Fourier transform."""
    size, rank = sp.size(), sp.rank()
    matrix = np.arange(size * size).reshape(size, size)
    np.testing.assert_array_equal(sp.alltoall(matrix[rank])[0], matrix.T[rank])


@pytest.mark.parametrize("odd", ("first", "last"))
def test_the_rows_between_two_ranks_may_change_without_the_others(odd):
    """The other ranks repeat what they did, and must meet the one that does something new."""
    changing = 0 if odd == "first" else sp.size() - 1
    for step in (1, 2, 3, 2, 1):

        def rows(giver, taker, step=step):
            return step if giver == taker == changing else 1

        tag = f"step {step}"
        result, received = sp.alltoall(mine(rows, (2,), "float64", tag), splits_of(rows, sp.rank()))
        expected, sent = exchanged(rows, (2,), "float64", tag)
        assert received == sent
        np.testing.assert_array_equal(result, expected)


def test_values_may_change_where_rows_do_not():
    """A compiled call keeps its buffers; they must not keep what was in them."""
    rows = ROWS["uneven"]
    splits = splits_of(rows, sp.rank())
    run = tf.function(lambda x: sp.alltoall(x, splits)[0], jit_compile=True)
    for step in range(3):
        result = run(mine(rows, (2,), "float32", f"{step}"))
        np.testing.assert_array_equal(result, exchanged(rows, (2,), "float32", f"{step}")[0])


@pytest.mark.parametrize("context", CONTEXTS)
def test_groups_of_even_and_odd_ranks(context):
    group = sp.current_world().communicator.split(sp.rank() % 2)
    members = range(sp.rank() % 2, sp.size(), 2)
    x = [[10 * sp.rank() + taker] for taker in members]
    (result,) = context(lambda x: [sp.alltoall(x, communicator=group)[0]])(tf.constant(x))
    np.testing.assert_array_equal(result, [[10 * giver + sp.rank()] for giver in members])


# Splits


KINDS_OF_SPLITS = {
    "tuple": tuple,
    "array": np.array,
    "array of int64": lambda splits: np.array(splits, np.int64),
    "array of uint8": lambda splits: np.array(splits, np.uint8),
    "tensor": tf.constant,
    "tensor of int64": lambda splits: tf.constant(splits, tf.int64),
}


@pytest.mark.ranks(most=2, reason="it is about the splits of one rank")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_splits_may_be_any_whole_numbers_that_are_known(context):
    """Made outside of the function; the last are constants of its graph."""
    rows = ROWS["uneven"]
    splits = splits_of(rows, sp.rank())
    known = [convert(splits) for convert in KINDS_OF_SPLITS.values()]

    def run(x):
        return [sp.alltoall(x, each)[0] for each in (*known, tf.constant(splits))]

    results = context(run)(mine(rows, (2,), "float64"))
    expected = exchanged(rows, (2,), "float64")[0]
    for result, kind in zip(results, (*KINDS_OF_SPLITS, "constant of the graph"), strict=True):
        np.testing.assert_array_equal(result, expected, err_msg=kind)


@pytest.mark.ranks(most=1, reason="refused before anything travels")
def test_splits_that_a_compiled_function_computes_are_refused():
    run = compiled(lambda x, splits: [sp.alltoall(x, splits)[0]])
    with pytest.raises(InputError, match="splits that are known when the function is traced"):
        run(tf.zeros([sp.size(), 2]), tf.ones([sp.size()], tf.int32))


@pytest.mark.ranks(most=2, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
@pytest.mark.parametrize(
    "bad",
    (
        lambda size: [1] * (size + 1),
        lambda size: [],
        lambda size: [[1] * size],
        lambda size: 2 * size,
        lambda size: [2] * (size - 1) + [3],
        lambda size: [2] * (size - 1) + [1],
        lambda size: [2 * size + 2, -2] + [0] * (size - 2),
        lambda size: [2.0] * size,
        lambda size: [True] * size,
        lambda size: ["2"] * size,
    ),
)
def test_splits_that_do_not_fit(context, bad):
    size = sp.size()
    x, splits = tf.zeros([2 * size, 3]), bad(size)
    with pytest.raises(InputError) as error:
        context(lambda: [sp.alltoall(x, splits)[0]])()
    expected = f"splits to be {size} integers ≥ 0 that add up to the {2 * size} rows"
    assert expected in str(error.value)


@pytest.mark.ranks(least=2, most=2, reason="one rank can split any number of rows evenly")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_rows_that_cannot_be_split_evenly(context):
    with pytest.raises(InputError, match=r"rows cannot be split evenly among \d ranks. Say with"):
        context(lambda: [sp.alltoall(tf.zeros([sp.size() + 1]))[0]])()


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_a_scalar_is_refused(context):
    with pytest.raises(InputError, match=r"alltoall: .*got a scalar. Reshape it to \[1\]"):
        context(lambda: [sp.alltoall(tf.constant(1.0))[0]])()


def test_strings_are_refused():
    with pytest.raises(InputError, match="alltoall: cannot carry elements of type string"):
        sp.alltoall(tf.constant(["a"] * sp.size()))
