"""allreduce of tf.IndexedSlices: the ranks' rows together, in one exchange."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import MISMATCHES, THREE_CONTEXTS, compiled, eager, generator, graph, values

import sciml_par.parallel as sp
from sciml_par.errors import InputError

pytestmark = pytest.mark.ranks(most=3, reason="rows of four ranks are those of three")

LENGTH = 7


def rows_of(rank, more=0):
    """Other numbers of rows on every rank, and none on rank 0."""
    return 2 * rank + more


def slices(rank, dtype="float64", more=0):
    """Values and indices, some of these twice."""
    n = rows_of(rank, more)
    indices = generator(rank, f"indices {more}").integers(0, LENGTH, n)
    return values(rank, (n, 2), dtype, f"sparse {more}"), indices


def indexed(rank, dtype="float64", more=0):
    x, indices = slices(rank, dtype, more)
    return tf.IndexedSlices(tf.constant(x), tf.constant(indices), tf.constant([LENGTH, 2]))


def dense_sum(dtype="float64", more=0):
    total = np.zeros((LENGTH, 2))
    for rank in range(sp.size()):
        x, indices = slices(rank, dtype, more)
        np.add.at(total, indices, x.astype("float64"))
    return total


@pytest.mark.parametrize("context", THREE_CONTEXTS)
def test_the_sum_is_that_of_the_dense_tensors(context):
    def run(x, indices):
        slices = tf.IndexedSlices(x, indices, tf.constant([LENGTH, 2]))
        ys = [sp.allreduce(slices, op) for op in (sp.Sum, sp.Average)]
        assert all(isinstance(y, tf.IndexedSlices) for y in ys)
        return [part for y in ys for part in (y.values, y.indices, y.dense_shape)]

    results = context(run)(*map(tf.constant, slices(sp.rank())))
    for factor, (got, where, shape) in ((1, results[:3]), (sp.size(), results[3:])):
        assert got.shape[0] == where.shape[0] == sum(map(rows_of, range(sp.size())))
        np.testing.assert_array_equal(shape, [LENGTH, 2])
        total = np.zeros((LENGTH, 2))
        np.add.at(total, where.numpy(), got.numpy())
        np.testing.assert_allclose(total, dense_sum() / factor, 1e-13, 1e-14)


def test_fused_with_dense_tensors(transfers):
    """In order; all slices in one exchange of rows and one transfer an element type."""
    rank = sp.rank()
    tensors = [indexed(rank), tf.ones([3]), indexed(rank, "float64", 1), indexed(rank, "float32")]
    results = sp.fused_allreduce([*tensors, tf.ones([2])], sp.Sum)
    assert [isinstance(y, tf.IndexedSlices) for y in results] == [True, False, True, True, False]
    cases = [(0, ("float64", 0)), (2, ("float64", 1)), (3, ("float32", 0))]
    for i, case in cases:
        assert results[i].values.dtype == case[0]
        np.testing.assert_allclose(tf.convert_to_tensor(results[i]), dense_sum(*case), 1e-12)
    np.testing.assert_array_equal(results[4], [sp.size()] * 2)
    if sp.size() > 1:
        gathers = [("allgather", t) for t in ("int64", "float64", "float32", "int64")]
        made = [(request.signature.kind, request.dtype) for request in transfers]
        assert made == [("allreduce", "float32"), *gathers]


def test_factors_and_compression():
    y = sp.allreduce(
        indexed(sp.rank()),
        prescale_factor=4.0,
        postscale_factor=0.5,
        compression=sp.Compression.bf16,
    )
    assert y.values.dtype == "float64"
    np.testing.assert_allclose(tf.convert_to_tensor(y), 2 * dense_sum() / sp.size(), 1e-12)


def test_complex_values():
    x = tf.IndexedSlices(
        tf.constant([[1.0 + 1j * sp.rank()]]), tf.constant([sp.rank()]), tf.constant([sp.size(), 1])
    )
    y = tf.convert_to_tensor(sp.allreduce(x, sp.Average)).numpy()
    np.testing.assert_array_equal(y[:, 0] * sp.size(), 1 + 1j * np.arange(sp.size()))


@pytest.mark.ranks(most=1, reason="refused before anything travels")
def test_other_operations_are_refused():
    for op in (sp.Max, sp.Product, sp.Adasum):
        for reduce in (sp.allreduce, lambda x, op: sp.fused_allreduce([x], op)):
            with pytest.raises(InputError, match="expected Sum or Average for tf.IndexedSlices; g"):
                reduce(indexed(sp.rank()), op)


@pytest.mark.ranks(least=2, reason="one rank has nobody to differ from")
@pytest.mark.parametrize(
    ("context", "reduce"),
    (
        (eager, sp.allreduce),
        (graph, lambda x, op: sp.fused_allreduce([x], op)[0]),
        (compiled, sp.allreduce),
    ),
)
def test_ranks_that_differ_in_the_dense_shape(context, reduce):
    def run(x, indices):
        shape = [LENGTH + (sp.rank() == 1), 2]
        return [reduce(tf.IndexedSlices(x, indices, tf.constant(shape)), sp.Sum).values]

    x, indices = map(tf.constant, slices(sp.rank()))
    with pytest.raises(MISMATCHES, match=rf"dense_shape \[{LENGTH}, 2\](.|\n)*\[{LENGTH + 1}, 2\]"):
        context(run)(x, indices)


@pytest.mark.ranks(least=2, reason="one rank has nobody to differ from")
def test_ranks_that_differ_in_a_dense_shape_that_only_the_graph_knows():
    @tf.function
    def run(x, indices, shape):
        return sp.allreduce(tf.IndexedSlices(x, indices, shape), sp.Sum).values

    x, indices = map(tf.constant, slices(sp.rank()))
    assert run(x, indices, tf.constant([LENGTH, 2])).shape == [
        sum(map(rows_of, range(sp.size()))),
        2,
    ]
    with pytest.raises(MISMATCHES, match="did not ask for the same"):
        run(x, indices, tf.constant([LENGTH + (sp.rank() == 1), 2]))


@pytest.mark.parametrize("context", THREE_CONTEXTS)
def test_a_dense_shape_that_is_no_tensor(context):
    shapes = ([LENGTH, 2], (LENGTH, 2), np.array([LENGTH, 2]), None)

    def run(x, indices):
        every = [tf.IndexedSlices(x, indices, shape) for shape in shapes]
        return [sp.allreduce(each, sp.Sum).values for each in every]

    for y in context(run)(*map(tf.constant, slices(sp.rank()))):
        assert y.shape == [sum(map(rows_of, range(sp.size()))), 2]
