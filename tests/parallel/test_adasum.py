"""Adasum against its definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import compiled, eager, graph, normal, normals, numpy_type, on_two, values

import sciml_par.parallel as sp

SHAPES = [(3, 2), (1,), (0,), (), (50,), (4, 5)]
"""Of tensors that are fused; ranks get parts that begin and end inside of them."""


def pair(a, b):
    """(1 − a·b / 2‖a‖²) a + (1 − a·b / 2‖b‖²) b."""
    both = (a * b).sum()
    of_a = 1 - both / (2 * (a * a).sum()) if a.any() else 1.0
    of_b = 1 - both / (2 * (b * b).sum()) if b.any() else 1.0
    return of_a * a + of_b * b


def reference(everyone):
    """By recursive doubling; ranks beyond the largest power of two fold in first."""
    vectors = list(np.asarray(everyone, "float64"))
    whole = 1 << (len(vectors).bit_length() - 1)
    for r in range(len(vectors) - whole):
        vectors[r] = pair(vectors[r], vectors[whole + r])
    vectors = vectors[:whole]
    while len(vectors) > 1:
        vectors = [pair(a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def reduce(x):
    return sp.allreduce(x, sp.Adasum)


@pytest.mark.parametrize("context", (eager, on_two(graph)))
def test_each_of_the_fused_tensors_by_itself(context):
    def run(*xs):
        alone = [sp.allreduce(x, sp.Adasum) for x in xs[:2]]
        return sp.fused_allreduce(xs, sp.Adasum) + alone

    results = context(run)(*[tf.constant(normal(sp.rank(), s, f"{s}")) for s in SHAPES])
    for result, shape in zip(results, SHAPES + SHAPES[:2], strict=True):
        expected = reference(normals(shape, f"{shape}"))
        assert result.shape == shape
        np.testing.assert_allclose(result, expected, 1e-12, 1e-13, err_msg=f"{shape}")


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_shorter_types(dtype):
    """In float16 the square of 300 is infinite, and that of 1e-4 zero."""
    for scale in (1.0, 300.0, 1e-4):
        everyone = (scale * normals((40,), dtype)).astype(numpy_type(dtype))
        result = reduce(tf.constant(everyone[sp.rank()]))
        assert result.dtype == dtype
        exact = reference(everyone.astype("float64"))
        error = np.abs(result.numpy().astype("float64") - exact).max() / np.abs(exact).max()
        assert error < {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6}[dtype]


def test_zeros():
    """On all ranks, on all but one, and where two ranks cancel."""
    np.testing.assert_array_equal(reduce(tf.zeros(5)), np.zeros(5))
    for giver in range(sp.size()):
        x = tf.constant(values(giver, (5,), "float64", "zeros")) * (sp.rank() == giver)
        np.testing.assert_allclose(reduce(x), values(giver, (5,), "float64", "zeros"), 1e-14)
    everyone = normals((5,), "cancel")
    if sp.size() > 1:
        everyone[1] = -everyone[0]
    result = reduce(tf.constant(everyone[sp.rank()]))
    assert np.isfinite(result).all()
    if sp.size() != 3:  # with three, the third one folds in before they cancel
        np.testing.assert_allclose(result, reference(everyone), 1e-12, 1e-14)


@pytest.mark.parametrize("context", (eager, on_two(compiled)))
def test_the_gradient(context):
    """Of L = Σ_r (r + 1) Σ_i c_i y_i, against central differences of the definition."""
    shape = (4,)
    weights = np.arange(1.0, 5.0)
    total = sum(range(1, sp.size() + 1))

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, _ = sp.fused_allreduce([x, tf.ones([3], x.dtype)], sp.Adasum)
            loss = (sp.rank() + 1.0) * tf.reduce_sum(weights * y)
        return [y, tape.gradient(loss, x)]

    everyone = normals(shape, "gradient")
    y, result = context(run)(tf.constant(everyone[sp.rank()]))
    expected = np.zeros(shape)
    for i in range(4):
        step = np.zeros_like(everyone)
        step[sp.rank(), i] = 1e-5
        up, down = reference(everyone + step), reference(everyone - step)
        expected[i] = total * weights @ (up - down) / 2e-5
    np.testing.assert_allclose(y, reference(everyone), 1e-12)
    np.testing.assert_allclose(result, expected, 1e-6, 1e-7)


def test_gradients_of_zeros_are_finite():
    x = tf.zeros([3]) if sp.rank() == 0 else tf.ones([3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = reduce(x)
    assert np.isfinite(tape.gradient(y, x)).all()


@pytest.mark.ranks(least=2, most=2, reason="how a program is compiled does not depend on it")
def test_in_a_loop_with_compression_and_factors():
    @tf.function(jit_compile=True)
    def run(x):
        step = lambda i, x: (  # noqa: E731
            i + 1,
            sp.allreduce(x, sp.Adasum, compression=sp.Compression.fp16, postscale_factor=2.0),
        )
        return tf.while_loop(lambda i, x: i < 3, step, (0, x))[1]

    everyone = normals((6,), "loop")
    expected = 2 * reference(everyone) * 4  # after the first step all are alike
    np.testing.assert_allclose(run(tf.constant(everyone[sp.rank()])), expected, 5e-3, 5e-3)


def test_in_a_group():
    group = sp.current_world().communicator.split(sp.rank() % 2)
    everyone = normals((5,), "group")
    result = sp.allreduce(tf.constant(everyone[sp.rank()]), sp.Adasum, communicator=group)
    np.testing.assert_allclose(result, reference(everyone[sp.rank() % 2 :: 2]), 1e-12, 1e-13)
