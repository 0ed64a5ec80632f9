"""Fused collectives: the same results as one by one, in one transfer per element type."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, all_values, compiled, eager, graph, values

import sciml_par.parallel as sp
from sciml_par.parallel.call import Call

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
    """The element types of the transfers made."""
    made = []
    execute = Call.execute

    def recording(self, send, receive):
        made.append(self.signature.dtype)
        execute(self, send, receive)

    monkeypatch.setattr(Call, "execute", recording)
    return made


@pytest.mark.parametrize("context", CONTEXTS)
def test_fused_allreduce(context):
    run = context(lambda *xs: sp.fused_allreduce(xs, sp.Sum))
    results = run(*[tf.constant(tagged(sp.rank(), i)) for i in range(len(CASES))])
    for i, (result, (dtype, shape)) in enumerate(zip(results, CASES, strict=True)):
        expected = all_values(shape, dtype, str(i)).astype("float64").sum(axis=0)
        assert result.dtype == dtype and result.shape == shape
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
    travels_as = "float32" if fused is sp.fused_allreduce else "bfloat16"
    assert sorted(transfers) == sorted(["float64", "float32", travels_as])


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_nothing_to_fuse(context):
    assert context(lambda: sp.fused_allreduce([]))() == []


def test_of_the_default_average():
    results = sp.fused_allreduce([tf.constant(float(sp.rank())), tf.constant([1.0])])
    assert results[0].numpy() == pytest.approx((sp.size() - 1) / 2)
    assert results[1].numpy() == [1.0]


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
