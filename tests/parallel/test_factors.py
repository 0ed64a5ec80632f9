"""Factors before and after a reduction, and what travels in its place."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, all_values, normal, normals, values
from reductions import own_part, reduced

import sciml_par.parallel as sp

pytestmark = pytest.mark.ranks(most=3, reason="a factor is the same on four ranks")

FACTORS = {"prescale_factor": 0.5, "postscale_factor": 3.0}
SHAPE = (2, 3)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_factors_of_every_reduction(context):
    cases = [("float64", sp.Sum), ("float32", sp.Average), ("float16", sp.Max)]
    cases += [("bfloat16", sp.Product), ("int32", sp.Sum), ("uint8", sp.Max)]

    def every_case(*xs):
        results = []
        for x, (_, op) in zip(xs, cases, strict=True):
            results.append(sp.allreduce(x, op, **FACTORS))
            results.append(sp.reducescatter(x, op, **FACTORS))
            results += sp.fused_allreduce([x, x[0, 0]], op, **FACTORS)
            results += sp.fused_reducescatter([x, x[0]], op, **FACTORS)
        return results

    results = context(every_case)(*[tf.constant(values(sp.rank(), SHAPE, t)) for t, _ in cases])
    for i, (dtype, op) in enumerate(cases):
        everyone = all_values(SHAPE, dtype)
        scaled = (everyone.astype("float64") * 0.5).astype(everyone.dtype)
        expected = (reduced(scaled, op).astype("float64") * 3.0).astype(everyone.dtype)
        parts = [own_part(expected), own_part(expected[0])]
        wanted = [expected, own_part(expected), expected, expected[0, 0], *parts]
        for result, each in zip(results[6 * i : 6 * i + 6], wanted, strict=True):
            assert result.dtype == dtype
            got, each = result.numpy().astype("float64"), np.asarray(each).astype("float64")
            tolerance = 1e-2 if dtype in ("float16", "bfloat16") else 1e-6
            np.testing.assert_allclose(got, each, tolerance, err_msg=f"{op} of {dtype}")


def test_integers_lose_their_fraction():
    result = sp.allreduce(tf.constant([-3, 3, 2**53 - 1], tf.int64), sp.Max, prescale_factor=0.5)
    np.testing.assert_array_equal(result, [-1, 1, 2**52 - 1])


def test_a_factor_may_be_a_weight_of_the_rank():
    """Which makes a weighted mean of an average."""
    weight = (sp.rank() + 1) / sum(range(1, sp.size() + 1))
    result = sp.allreduce(normal(sp.rank(), (4,), "weights"), sp.Sum, prescale_factor=weight)
    expected = np.average(normals((4,), "weights"), axis=0, weights=range(1, sp.size() + 1))
    np.testing.assert_allclose(result, expected, 1e-13)


def test_factors_leave_the_other_part_of_a_complex_number_as_it_is():
    x = tf.constant([complex(np.inf, 1.0)])
    y = sp.allreduce(x, sp.Average, prescale_factor=2.0).numpy()[0]
    assert (y.real, y.imag) == (np.inf, 2.0)


# Compression


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_compression(context, transfers):
    """Sums of small numbers are exact in any of them."""
    dtypes = ("float32", "float64", "bfloat16", "int32")
    shorter = {"fp16": "float16", "bf16": "bfloat16", "none": None}

    def every_case(*xs):
        results = []
        for name in shorter:
            compression = getattr(sp.Compression, name)
            results += [sp.allreduce(x, sp.Sum, compression=compression) for x in xs]
            results += sp.fused_allreduce(xs, sp.Sum, compression=compression)
        return results

    results = context(every_case)(
        *[tf.constant(values(sp.rank(), SHAPE, dtype)) for dtype in dtypes]
    )
    cases = [(name, dtype) for name in shorter for dtype in dtypes * 2]
    for result, (name, dtype) in zip(results, cases, strict=True):
        assert result.dtype == dtype
        expected = reduced(all_values(SHAPE, dtype), sp.Sum)
        np.testing.assert_array_equal(result, expected, err_msg=f"{name} of {dtype}")
    if sp.size() > 1:
        travelling = [[half or "float32", half or "float64"] for half in shorter.values()]
        types = [request.dtype for request in transfers]
        assert types == [t for two in travelling for t in [*two, "bfloat16", "int32"] * 2]


def test_compression_rounds_what_travels():
    third = tf.constant(1 / 3, tf.float64)
    for name, dtype in (("fp16", "float16"), ("bf16", "bfloat16")):
        y = sp.allreduce(third, sp.Average, compression=getattr(sp.Compression, name))
        assert y.numpy() == tf.cast(tf.cast(third, dtype), tf.float64).numpy()
    # The factor comes first, so that it can keep numbers inside of the range of float16.
    large = tf.constant(1e5)
    y = sp.allreduce(large, prescale_factor=0.01, compression=sp.Compression.fp16)
    assert y.numpy() == 1000.0


class ByThousands(sp.Compressor):
    """A custom compressor: whole thousandths travel."""

    @staticmethod
    def compress(tensor):
        return tf.cast(tf.round(tensor * 1000), tf.int32), tensor.dtype

    @staticmethod
    def decompress(tensor, context):
        return tf.cast(tensor, context) / 1000


def test_a_compressor_of_the_user(transfers):
    x = tf.constant([0.0004 + sp.rank(), 2.5])
    y = sp.allreduce(x, sp.Sum, compression=ByThousands)
    np.testing.assert_allclose(y, [sum(range(sp.size())), 2.5 * sp.size()])
    assert [request.dtype for request in transfers] == ["int32"] * (sp.size() > 1)


def test_gradients_pass_through_compression():
    x = tf.constant(normal(sp.rank(), (3,), "compressed"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = sp.allreduce(x, sp.Sum, compression=sp.Compression.bf16)
        loss = (sp.rank() + 1) * tf.reduce_sum(y)
    slope = tape.gradient(loss, x)
    assert slope.dtype == x.dtype
    np.testing.assert_array_equal(slope, [sum(range(sp.size() + 1))] * 3)
