"""allreduce against NumPy, on data that differ from rank to rank."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import (
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


@in_groups("context, cases", TYPE_CONTEXTS, CASES)
def test_every_operation_on_every_type(context, cases):
    """All in one function, so that XLA compiles once a context."""
    shape = (3, 2)
    run = context(lambda *xs: [sp.allreduce(x, op) for x, (_, op) in zip(xs, cases, strict=True)])
    results = run(*[tf.constant(values(sp.rank(), shape, dtype)) for dtype, _ in cases])
    for result, (dtype, op) in zip(results, cases, strict=True):
        assert_same(result, reduced(all_values(shape, dtype), op), f"{op} of {dtype}")


@pytest.mark.parametrize("context", TYPE_CONTEXTS)
def test_every_shape(context):
    shapes = [(), (0,), (1,), (3, 0), (5,), (2, 3), (2, 1, 3)]
    run = context(lambda *xs: [sp.allreduce(x, sp.Sum) for x in xs])
    results = run(*[tf.constant(values(sp.rank(), shape, "float64")) for shape in shapes])
    for result, shape in zip(results, shapes, strict=True):
        assert_same(result, reduced(all_values(shape, "float64"), sp.Sum), f"{shape}")


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_a_million_elements(context):
    run = context(lambda x: [sp.allreduce(x, sp.Sum)])
    (result,) = run(tf.constant(values(sp.rank(), (1_000_000,), "float32")))
    assert_same(result, reduced(all_values((1_000_000,), "float32"), sp.Sum), "1e6")


def test_extreme_integers():
    everyone = np.array([2**63 - 1 - rank for rank in range(sp.size())], np.int64)
    result = sp.allreduce(tf.constant(everyone[sp.rank()]), sp.Min)
    assert result.numpy() == everyone.min()
    for bits in (8, 16, 32, 64):  # on either side of what would be negative with a sign
        each = [2 ** (bits - 1) - 1 + rank for rank in range(sp.size())]
        unsigned = np.array(each, f"uint{bits}")
        assert sp.allreduce(tf.constant(unsigned[sp.rank()]), sp.Max).numpy() == each[-1]


def test_half_precision_is_combined_in_float32():
    """4097 = 4096 + 1 is no float16; rounding after each addition would lose every 1."""
    ones = [4096.0] + [1.0] * (sp.size() - 1)
    for dtype in ("float16", "bfloat16"):
        result = sp.allreduce(tf.constant(ones[sp.rank()], dtype), sp.Sum)
        assert result.numpy() == np.float32(sum(ones)).astype(numpy_type(dtype))


def test_average_is_the_default():
    result = sp.allreduce(tf.constant(normal(sp.rank(), (4,), "default")))
    np.testing.assert_allclose(result, normals((4,), "default").mean(axis=0), 1e-14)


def test_takes_what_tensorflow_converts():
    np.testing.assert_array_equal(sp.allreduce([sp.rank(), 1], sp.Max), [sp.size() - 1, 1])
    np.testing.assert_array_equal(sp.allreduce(tf.Variable([1.0]), sp.Sum), [sp.size()])


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::2],
        np.broadcast_to(3.0, (4,)),
        np.arange(3.0).astype(">f8"),
    ],
    ids=["Fortran's order", "strided", "read-only", "big-endian"],
)
def test_arrays_of_every_layout(array):
    """Again with the same type and shape, which takes a shorter way."""
    for factor in (1, 2, 3):
        y = sp.allreduce(factor * array, sp.Sum)
        assert y.numpy().tolist() == (sp.size() * factor * array).tolist()
        assert sp.allreduce(array, sp.Sum).numpy().tolist() == (sp.size() * array).tolist()


def test_results_live_as_long_as_somebody_has_them():
    results = [sp.allreduce(np.full(4, step), sp.Sum) for step in range(10)]
    for step, result in enumerate(results):
        assert result.numpy().tolist() == [sp.size() * step] * 4


def test_the_input_stays_as_it_was():
    """Also where XLA gives the collective one buffer for input and output."""
    x = tf.constant(normal(sp.rank(), (64,), "kept"))
    before = x.numpy().copy()
    for context in (eager, graph, compiled):
        y, kept = context(lambda x: [sp.allreduce(x, sp.Sum), x + 0.0])(x)
        np.testing.assert_allclose(y, normals((64,), "kept").sum(axis=0), 1e-12, 1e-13)
        np.testing.assert_array_equal(kept, before)
        np.testing.assert_array_equal(x, before)


def test_all_ranks_get_the_same_bits():
    result = sp.allreduce(tf.constant(normal(sp.rank(), (1000,), "bits")), sp.Sum).numpy()
    everyone = sp.current_world().communicator.allgather_object(result.tobytes())
    assert set(everyone) == {result.tobytes()}


def test_in_a_session():
    """In a graph of TensorFlow 1's kind."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [4])
        y = sp.allreduce(x, sp.Sum)
        result = session.run(y, {x: normal(sp.rank(), (4,), "session")})
    np.testing.assert_allclose(result, normals((4,), "session").sum(axis=0), 1e-13)


@pytest.mark.ranks(most=1, reason="refused before anything travels")
@pytest.mark.parametrize("context", (eager, graph, compiled))
@what_has_no_meaning
def test_what_has_no_meaning(context, make, op, says):
    with pytest.raises(InputError, match=says):
        x = make()
        context(lambda: [sp.allreduce(x, op)])()
