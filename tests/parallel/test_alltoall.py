"""alltoall: the rows that each rank receives, and the kinds of splits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import FLOATS, THREE_CONTEXTS, normal, numpy_type

import sciml_par.parallel as sp


def rows_between(giver, taker):
    return (giver + 2 * taker) % 4


def splits_of(giver, number=rows_between):
    return [number(giver, taker) for taker in range(sp.size())]


def input_of(giver, number=rows_between, tag=""):
    return normal(giver, (sum(splits_of(giver, number)), 2), tag)


def exchanged(number=rows_between, tag=""):
    """Return the rows that this rank must receive, and how many come from each rank."""
    me, parts = sp.rank(), []
    for giver in range(sp.size()):
        start = sum(splits_of(giver, number)[:me])
        parts.append(input_of(giver, number, tag)[start : start + number(giver, me)])
    return np.concatenate(parts), [len(part) for part in parts]


@pytest.mark.parametrize("context", THREE_CONTEXTS)
def test_how_many_rows_come_from_each_rank_is_told(context):
    def run(x):
        y, received = sp.alltoall(x, splits_of(sp.rank()))
        return [y, tf.convert_to_tensor(received)]

    for found, expected in zip(
        context(run)(tf.constant(input_of(sp.rank()))), exchanged(), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_bit_arrives(dtype):
    """Also those of NaNs and of both zeros."""
    kind = np.dtype(numpy_type(dtype))
    bits = np.random.default_rng(sp.rank()).integers(
        0, 256, size=4 * sp.size() * kind.itemsize, dtype=np.uint8
    )
    bits[: 2 * kind.itemsize] = [*[0xFF] * kind.itemsize, *[0] * (kind.itemsize - 1), 0x80]
    result, _ = sp.alltoall(tf.constant(bits.view(kind)))
    everyone = sp.current_world().communicator.allgather_object(bits)
    mine = [np.split(each, sp.size())[sp.rank()] for each in everyone]
    np.testing.assert_array_equal(result.numpy().view(np.uint8), np.concatenate(mine))


@pytest.mark.parametrize("odd", ("first", "last"))
def test_the_rows_between_two_ranks_may_change_without_the_others(odd):
    """The other ranks repeat what they did, and must meet the one that does something new."""
    changing = 0 if odd == "first" else sp.size() - 1
    for step in (1, 2, 3, 2, 1):

        def rows(giver, taker, step=step):
            return step if giver == taker == changing else 1

        tag = f"step {step}"
        result, received = sp.alltoall(input_of(sp.rank(), rows, tag), splits_of(sp.rank(), rows))
        expected, sent = exchanged(rows, tag)
        assert list(received) == sent
        np.testing.assert_array_equal(result, expected)


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
@pytest.mark.parametrize("context", THREE_CONTEXTS)
def test_splits_may_be_any_whole_numbers_that_are_known(context):
    """Made outside of the function; the last are constants of its graph."""
    splits = splits_of(sp.rank())
    known = [convert(splits) for convert in KINDS_OF_SPLITS.values()]
    results = context(
        lambda x: [sp.alltoall(x, each)[0] for each in (*known, tf.constant(splits))]
    )(tf.constant(input_of(sp.rank())))
    for result, kind in zip(results, (*KINDS_OF_SPLITS, "constant of the graph"), strict=True):
        np.testing.assert_array_equal(result, exchanged()[0], err_msg=kind)
