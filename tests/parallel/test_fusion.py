"""Fused collectives: the same results as one by one, in one transfer per element type."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, compiled_loop, eager, graph_loop, nested, on_two, values
from reductions import own_part

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError
from sciml_par.parallel.collectives import tensor_bundle

several_ranks = pytest.mark.ranks(least=2, reason="one rank transfers nothing")

CASES = [
    ("float64", (3,)),
    ("float32", ()),
    ("int32", (2, 2)),
    ("float64", (2, 3)),
    ("float32", (0,)),
    ("complex64", (2,)),
    ("float64", (0, 4)),
    ("bfloat16", (5,)),
    ("int32", ()),
    ("float64", ()),
]

GATHERED = [
    ("float64", lambda rank: rank + 1, (2,)),
    ("int32", lambda rank: 2 * rank, ()),
    ("float64", lambda rank: 0, (3,)),
    ("float64", lambda rank: 0 if rank else 2, ()),
    ("bool", lambda rank: 2, (1, 2)),
    ("float64", lambda rank: 1, (0,)),
    ("int32", lambda rank: 1, (2, 2)),
    ("complex64", lambda rank: rank, ()),
]
"""Type, rows of a rank, shape of a row."""

SCATTERED = [
    ("float64", (5, 2)),
    ("int32", (3,)),
    ("float64", (1,)),
    ("float64", (0, 2)),
    ("bfloat16", (6,)),
    ("float64", (4, 0)),
    ("int32", (4, 2)),
    ("complex64", (3, 2)),
]


def inputs_of(rank, cases=CASES):
    return [values(rank, shape, dtype, f"{i}") for i, (dtype, shape) in enumerate(cases)]


def rows_of(rank):
    return inputs_of(rank, [(t, (rows(rank), *row)) for t, rows, row in GATHERED])


def of_all(inputs_of_rank):
    """The arrays of all ranks, for each tensor."""
    return zip(*map(inputs_of_rank, range(sp.size())), strict=True)


def assert_same(results, expected):
    for result, each in zip(results, expected, strict=True):
        assert result.dtype == each.dtype and result.shape == each.shape
        np.testing.assert_array_equal(tf.cast(result, tf.complex128), each.astype("complex128"))


def sums(everyone):
    return [sum(each[1:], each[0]) for each in everyone]


ONE_BY_TYPE = [("float64", 10), ("float32", 1), ("int32", 5), ("complex64", 2), ("bfloat16", 5)]


@pytest.mark.parametrize("context", (*EAGER_FIRST, on_two(compiled_loop)))
def test_fused_allreduce(context, transfers):
    run = context(lambda *xs: sp.fused_allreduce(xs, sp.Sum))
    assert_same(run(*map(tf.constant, inputs_of(sp.rank()))), sums(of_all(inputs_of)))
    if context is not compiled_loop and sp.size() > 1:
        assert [(request.dtype, request.count) for request in transfers] == ONE_BY_TYPE


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_fused_broadcast(context, transfers):
    run = context(lambda *xs: sp.fused_broadcast(xs, sp.size() - 1))
    results = run(*map(tf.constant, inputs_of(sp.rank())))
    assert_same(results, inputs_of(sp.size() - 1))
    if sp.size() > 1:
        assert [(request.dtype, request.count) for request in transfers] == ONE_BY_TYPE


@pytest.mark.parametrize("context", (*EAGER_FIRST, on_two(graph_loop)))
def test_fused_allgather(context, transfers):
    run = context(lambda *xs: sp.fused_allgather(xs))
    assert_same(run(*map(tf.constant, rows_of(sp.rank()))), map(np.concatenate, of_all(rows_of)))
    if context is eager and sp.size() > 1:  # the first is the exchange of all numbers of rows
        types = [request.dtype for request in transfers]
        assert types == ["int64", "float64", "int32", "bool", "complex64"]


@pytest.mark.parametrize("context", (*EAGER_FIRST, on_two(nested)))
def test_fused_reducescatter(context, transfers):
    run = context(lambda *xs: sp.fused_reducescatter(xs, sp.Sum))
    mine = inputs_of(sp.rank(), SCATTERED)
    everyone = of_all(lambda rank: inputs_of(rank, SCATTERED))
    assert_same(run(*map(tf.constant, mine)), map(own_part, sums(everyone)))
    if context is eager and sp.size() > 1:
        types = [request.dtype for request in transfers]
        assert types == ["float64", "int32", "bfloat16", "complex64"]


def test_nothing_to_fuse():
    for fused in (sp.fused_allreduce, sp.fused_allgather, sp.fused_reducescatter):
        assert fused([]) == []


def test_average_is_the_default():
    results = sp.fused_allreduce([tf.constant(float(sp.rank())), tf.constant([1.0])])
    assert results[0].numpy() == pytest.approx((sp.size() - 1) / 2)
    assert results[1].numpy() == [1.0]


@several_ranks
@pytest.mark.parametrize(
    "collective", (sp.fused_allreduce, sp.fused_broadcast, sp.fused_reducescatter)
)
def test_shapes_in_another_order_are_an_error(collective):
    xs = [tf.zeros([2, 5]), tf.zeros([5, 2])]
    with pytest.raises(CollectiveMismatchError, match=r"name 'both \(2 tensors of shapes"):
        collective(xs[::-1] if sp.rank() == 1 else xs, name="both")


@several_ranks
def test_other_columns_on_one_rank_are_an_error():
    columns = 3 if sp.rank() == sp.size() - 1 else 2
    with pytest.raises(CollectiveMismatchError) as error:
        sp.fused_allgather([tf.ones([1]), tf.ones([2, columns])])
    for signature in ("rows of allgather(float32 [any]; float32 [any, 2])", "float32 [any, 3])"):
        assert signature in str(error.value)
    assert sp.allreduce(sp.rank(), sp.Max).numpy() == sp.size() - 1


# Buffers of a limited length, in bytes of each type

BUCKETS = {
    "all in one": (1000, [3, 4, 5], [12]),
    "exactly full": (16, [1, 3, 4], [4, 4]),
    "one too many": (15, [1, 3, 4], [1, 3, 4]),
    "the next does not fit": (20, [3, 1, 2, 2, 4], [4, 4, 4]),
    "a long one goes alone": (20, [2, 9, 3, 2], [2, 9, 5]),
    "long ones first and last": (8, [3, 1, 1, 3], [3, 2, 3]),
    "no room for anything": (1, [2, 1], [2, 1]),
    "empty ones take no room": (8, [0, 2, 0, 1, 0], [2, 1]),
    "nothing but empty ones": (8, [0, 0], [0]),
    "no tensors": (8, [], []),
}


@pytest.fixture
def buckets_of(monkeypatch):
    """Set the longest buffer in bytes."""

    def set_length(nbytes):
        monkeypatch.setattr(tensor_bundle, "BUCKET_BYTES", nbytes)
        tensor_bundle._buckets.cache_clear()

    yield set_length
    tensor_bundle._buckets.cache_clear()


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_buckets(context, transfers, buckets_of):
    """One case after the other, in one function."""
    tensors = [[("float32", (n,)) for n in lengths] for _, lengths, _ in BUCKETS.values()]

    def every_case(*xs):
        xs, results = iter(xs), []
        for nbytes, lengths, _ in BUCKETS.values():
            buckets_of(nbytes)
            results.append(sp.fused_allreduce(itertools.islice(xs, len(lengths)), sp.Sum))
        return results

    mine = [x for cases in tensors for x in inputs_of(sp.rank(), cases)]
    found = context(every_case)(*map(tf.constant, mine))
    for results, cases in zip(found, tensors, strict=True):
        assert_same(results, sums(of_all(lambda rank, cases=cases: inputs_of(rank, cases))))
    if sp.size() > 1:
        lengths = [n for _, _, transferred in BUCKETS.values() for n in transferred]
        assert [request.count for request in transfers] == lengths


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_buckets_of_several_types(context, transfers, buckets_of):
    """Types have separate buckets; the results keep the order of the tensors."""
    buckets_of(8)
    types = ["float32", "bfloat16", "float32", "bfloat16", "float32", "float64"]
    cases = [(t, (2 if t == "bfloat16" else 1,)) for t in types]
    run = context(lambda *xs: sp.fused_allreduce(xs, sp.Sum))
    results = run(*map(tf.constant, inputs_of(sp.rank(), cases)))
    assert_same(results, sums(of_all(lambda rank: inputs_of(rank, cases))))
    if sp.size() > 1:
        found = [(request.dtype, request.count) for request in transfers]
        fours, twos, eights = [("float32", 2), ("float32", 1)], [("bfloat16", 4)], [("float64", 1)]
        assert found == [*fours, *twos, *eights]


def test_the_usual_buckets_hold_a_network(transfers):
    """And of two tensors that are longer together than 64 MiB, each goes alone."""
    more_than_half = tf.ones([tensor_bundle.BUCKET_BYTES // 8 + 1])
    small = tf.ones([3])
    results = sp.fused_allreduce([more_than_half, small, more_than_half, small], sp.Sum)
    assert [len(result) for result in results] == [len(more_than_half), 3] * 2
    assert all((result.numpy() == sp.size()).all() for result in results)
    if sp.size() > 1:
        assert [request.count for request in transfers] == [len(more_than_half) + 3] * 2
