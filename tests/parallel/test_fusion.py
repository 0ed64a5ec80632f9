"""Fused collectives: the same results as one by one, in one transfer per element type."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, all_values, compiled, eager, graph, values

import sciml_par.parallel as sp
from sciml_par.errors import CollectiveMismatchError
from sciml_par.parallel.collectives.tensor_bundle import BUCKET_BYTES, TensorBundle, fuse
from sciml_par.parallel.groups.call_site import PreparedCall

CASES = [
    ("float64", (3,)),
    ("float32", ()),
    ("int32", (2, 2)),
    ("float64", (2, 3)),
    ("float32", (0,)),
    ("float64", (0, 4)),
    ("bfloat16", (5,)),
    ("int32", ()),
    ("float64", ()),
]


def tagged(rank, index):
    dtype, shape = CASES[index]
    return values(rank, shape, dtype, str(index))


@pytest.fixture
def transfers(monkeypatch):
    """What the transfers made have carried: ("float32", 5 elements)."""
    made = []
    execute = PreparedCall.execute

    def recording(self, *addresses):
        made.append((self.request.dtype, self.request.count))
        execute(self, *addresses)

    monkeypatch.setattr(PreparedCall, "execute", recording)
    return made


@pytest.mark.parametrize("context", CONTEXTS)
def test_fused_allreduce(context):
    run = context(lambda *xs: sp.fused_allreduce(xs, sp.Sum))
    results = run(*[tf.constant(tagged(sp.rank(), i)) for i in range(len(CASES))])
    for i, (result, (dtype, shape)) in enumerate(zip(results, CASES, strict=True)):
        expected = all_values(shape, dtype, str(i)).astype("float64").sum(axis=0)
        assert result.dtype == dtype and result.shape == shape
        np.testing.assert_array_equal(result.numpy().astype("float64"), expected)


@pytest.mark.skipif(sp.size() == 1, reason="needs two ranks")
@pytest.mark.parametrize(
    "collective", (sp.fused_allreduce, sp.fused_broadcast, sp.fused_reducescatter)
)
def test_shapes_in_another_order_are_an_error(collective):
    xs = [tf.zeros([2, 5]), tf.zeros([5, 2])]
    with pytest.raises(CollectiveMismatchError, match=r"name 'both \(2 tensors of shapes"):
        collective(xs[::-1] if sp.rank() == 1 else xs, name="both")


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_vectors_of_several_lengths(dtype):
    lengths = (3, 0, 5, 1)
    results = sp.fused_allreduce(
        [tf.constant(values(sp.rank(), (n,), dtype, str(n))) for n in lengths], sp.Sum
    )
    for n, result in zip(lengths, results, strict=True):
        expected = all_values((n,), dtype, str(n)).astype("float64").sum(axis=0)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy().astype("float64"), expected)


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_fused_broadcast(context):
    root = sp.size() - 1
    run = context(lambda *xs: sp.fused_broadcast(xs, root))
    results = run(*[tf.constant(tagged(sp.rank(), i)) for i in range(len(CASES))])
    for i, result in enumerate(results):
        assert result.dtype == CASES[i][0]
        np.testing.assert_array_equal(result.numpy(), tagged(root, i))


@pytest.mark.skipif("sp.size() == 1", reason="one rank transfers nothing")
@pytest.mark.parametrize("context", (eager, graph, compiled))
@pytest.mark.parametrize("fused", (sp.fused_allreduce, sp.fused_broadcast))
def test_one_transfer_per_type(context, fused, transfers):
    run = context(lambda *xs: fused(xs[:2] + xs[3:7]))  # no integers, which have no average
    run(*[tf.constant(tagged(sp.rank(), i)) for i in range(len(CASES))])
    assert sorted(transfers) == [("bfloat16", 5), ("float32", 1), ("float64", 9)]


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_nothing_to_fuse(context):
    assert context(lambda: sp.fused_allreduce([]))() == []


def test_of_the_default_average():
    results = sp.fused_allreduce([tf.constant(float(sp.rank())), tf.constant([1.0])])
    assert results[0].numpy() == pytest.approx((sp.size() - 1) / 2)
    assert results[1].numpy() == [1.0]


# Buffers of a limited length, in float32 (4 bytes) and bfloat16 (2 bytes)

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


def total(x):
    return sp.allreduce(x, sp.Sum)


@pytest.mark.parametrize("context", (eager, graph, compiled))
@pytest.mark.parametrize("what", BUCKETS)
def test_buckets(what, context, transfers):
    nbytes, lengths, expected = BUCKETS[what]
    xs = [values(sp.rank(), (n,), "float32", f"{i}") for i, n in enumerate(lengths)]
    results = context(lambda *xs: fuse(total, TensorBundle.of(xs, "total"), bucket_bytes=nbytes))(
        *map(tf.constant, xs)
    )
    assert len(results) == len(lengths)
    for i, (result, n) in enumerate(zip(results, lengths, strict=True)):
        assert result.shape == (n,)
        np.testing.assert_array_equal(result, all_values((n,), "float32", f"{i}").sum(axis=0))
    if sp.size() > 1:
        assert transfers == [("float32", n) for n in expected]


@pytest.mark.parametrize("context", CONTEXTS)
def test_buckets_of_several_types_and_shapes(context):
    """Types fill buckets of their own; the results keep the order of the tensors."""
    run = context(lambda *xs: fuse(total, TensorBundle.of(xs, "total"), bucket_bytes=32))
    results = run(*[tf.constant(tagged(sp.rank(), i)) for i in range(len(CASES))])
    for i, (result, (dtype, shape)) in enumerate(zip(results, CASES, strict=True)):
        expected = all_values(shape, dtype, str(i)).astype("float64").sum(axis=0)
        assert result.dtype == dtype and result.shape == shape
        np.testing.assert_array_equal(result.numpy().astype("float64"), expected)


@pytest.mark.skipif("sp.size() == 1", reason="one rank transfers nothing")
@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_buckets_are_counted_in_bytes_of_each_type(context, transfers):
    dtypes = ["float32", "bfloat16", "float32", "bfloat16", "float32", "float64"]
    run = context(lambda *xs: fuse(total, TensorBundle.of(xs, "total"), bucket_bytes=8))
    run(*[tf.ones([2 if dtype == "bfloat16" else 1], dtype) for dtype in dtypes])
    fours, twos, eights = [("float32", 2), ("float32", 1)], [("bfloat16", 4)], [("float64", 1)]
    assert transfers == [*fours, *twos, *eights]


def test_the_usual_buckets_hold_a_network(transfers):
    """And of two tensors that are longer together than 64 MiB, each goes alone."""
    more_than_half = tf.ones([BUCKET_BYTES // 8 + 1])
    small = tf.ones([3])
    results = sp.fused_allreduce([more_than_half, small, more_than_half, small], sp.Sum)
    assert [len(result) for result in results] == [len(more_than_half), 3] * 2
    assert all((result.numpy() == sp.size()).all() for result in results)
    if sp.size() > 1:
        assert transfers == [("float32", len(more_than_half) + 3)] * 2


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_gradients_pass_through(context):
    def run(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            a, b = sp.fused_allreduce([x, y], sp.Sum)
            loss = (sp.rank() + 1) * (tf.reduce_sum(a**2) + 3 * b)
        return tape.gradient(loss, [x, y])

    a, b = context(run)(tf.constant([1.0, 2.0]), tf.constant(1.0))
    factor = sum(range(1, sp.size() + 1))
    np.testing.assert_allclose(a, [2 * factor * sp.size(), 4 * factor * sp.size()], 1e-6)
    assert b.numpy() == 3 * factor
