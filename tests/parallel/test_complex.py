"""Gradients, fusion, factors and slices of complex numbers; the values are in the tests of each
collective."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, all_values, compiled_loop, normals, on_two, values

import sciml_par.parallel as sp

ROWS = 2 * sp.size()
ROOT = sp.size() - 1


def data(tag, shape=(ROWS, 2)):
    """complex128 of all ranks, [P, *shape]."""
    return normals(shape, f"real {tag}") + 1j * normals(shape, f"imaginary {tag}")


def everywhere(y):
    return [y] * sp.size()


def parts(y):
    return tf.split(y, sp.size())


def exchanged(xs):
    return [tf.concat(each, axis=0) for each in zip(*map(parts, xs), strict=True)]


COLLECTIVES = {
    "sum": (lambda x: sp.allreduce(x, sp.Sum), lambda xs: everywhere(tf.add_n(xs))),
    "average": (sp.allreduce, lambda xs: everywhere(tf.add_n(xs) / sp.size())),
    "product": (
        lambda x: sp.allreduce(x, sp.Product),
        lambda xs: everywhere(functools.reduce(operator.mul, xs)),
    ),
    "broadcast": (lambda x: sp.broadcast(x, ROOT), lambda xs: everywhere(xs[ROOT])),
    "allgather": (sp.allgather, lambda xs: everywhere(tf.concat(xs, axis=0))),
    "alltoall": (lambda x: sp.alltoall(x)[0], exchanged),
    "sum scattered": (lambda x: sp.reducescatter(x, sp.Sum), lambda xs: parts(tf.add_n(xs))),
    "average scattered": (sp.reducescatter, lambda xs: parts(tf.add_n(xs) / sp.size())),
    "product scattered": (
        lambda x: sp.reducescatter(x, sp.Product),
        lambda xs: parts(functools.reduce(operator.mul, xs)),
    ),
    "fused": (
        lambda x: sp.fused_allreduce([x, x[0]], sp.Sum, compression=sp.Compression.fp16)[0],
        lambda xs: everywhere(tf.add_n(xs)),
    ),
    "with factors": (
        lambda x: sp.allreduce(x, sp.Sum, prescale_factor=0.5, postscale_factor=3.0),
        lambda xs: everywhere(1.5 * tf.add_n(xs)),
    ),
}
"""The collective, and what it gives to all ranks, computed in one process."""


def loss_of(y, rank):
    """Real, another one on each rank, and no function of |y| alone."""
    weight = tf.constant(1.0 + rank - 0.5j, y.dtype)
    return tf.reduce_sum(tf.math.real(weight * y * y) + tf.math.real(y * tf.math.conj(y)))


def gradients(*xs):
    results = []
    for x, (collective, _) in zip(xs, COLLECTIVES.values(), strict=True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(collective(x), sp.rank())
        results.append(tape.gradient(loss, x))
    return results


def expected_gradient(name):
    """TensorFlow's own, of Σ_r L_r in one process."""
    xs = [tf.constant(x) for x in data(name)]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        total = tf.add_n([loss_of(y, r) for r, y in enumerate(COLLECTIVES[name][1](xs))])
    return tape.gradient(total, xs[sp.rank()], unconnected_gradients="zero")


def open_graph(function):
    spec = tf.TensorSpec([None, 2], tf.complex128)
    return tf.function(function, input_signature=[spec] * len(COLLECTIVES))


@pytest.mark.parametrize("context", (*EAGER_FIRST, on_two(open_graph), on_two(compiled_loop)))
def test_the_gradient_is_that_of_one_process(context):
    xs = [tf.constant(data(name)[sp.rank()]) for name in COLLECTIVES]
    for name, gradient in zip(COLLECTIVES, context(gradients)(*xs), strict=True):
        assert gradient.dtype == tf.complex128
        expected = expected_gradient(name)
        np.testing.assert_allclose(gradient, expected, 1e-11, 1e-11, err_msg=name)


def test_the_gradient_is_that_of_finite_differences():
    """∂L/∂Re x + i ∂L/∂Im x, TensorFlow's convention, for one element of rank 0."""
    everyone, step = data("product"), 1e-6

    def total(change):
        xs = everyone.copy()
        xs[0, 0, 0] += change
        y = xs.prod(axis=0)
        return sum(float(loss_of(tf.constant(y), r)) for r in range(sp.size()))

    real, imaginary = ((total(s * step) - total(-s * step)) / (2 * step) for s in (1, 1j))
    gradient = gradients(*[tf.constant(data(name)[sp.rank()]) for name in COLLECTIVES])
    mine = gradient[list(COLLECTIVES).index("product")].numpy()[0, 0]
    at_rank_0 = sp.current_world().communicator.broadcast_object(complex(mine))
    assert at_rank_0 == pytest.approx(real + 1j * imaginary, rel=1e-5)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_fused_with_other_types(context):
    """Compression leaves complex numbers as they are."""
    types = ("complex64", "float32", "complex128", "complex64")

    def run(*xs):
        return [
            *sp.fused_allreduce(xs, sp.Sum, compression=sp.Compression.bf16),
            *sp.fused_allgather(xs),
            *sp.fused_broadcast(xs, ROOT),
            *sp.fused_reducescatter(xs, sp.Sum),
        ]

    shape, rank = (ROWS, 2), sp.rank()
    results = context(run)(
        *[tf.constant(values(rank, shape, t, str(i))) for i, t in enumerate(types)]
    )
    for i, dtype in enumerate(types):
        everyone = all_values(shape, dtype, str(i))
        total = everyone.sum(axis=0)
        expected = (total, np.concatenate(everyone), everyone[ROOT], total[2 * rank : 2 * rank + 2])
        for y, right in zip(results[i :: len(types)], expected, strict=True):
            assert y.dtype == dtype
            np.testing.assert_array_equal(y, right)


def test_slices():
    x = tf.IndexedSlices(
        tf.constant([[1.0 + 1j * sp.rank()]]), tf.constant([sp.rank()]), tf.constant([sp.size(), 1])
    )
    y = tf.convert_to_tensor(sp.allreduce(x, sp.Average)).numpy()
    np.testing.assert_array_equal(y[:, 0] * sp.size(), 1 + 1j * np.arange(sp.size()))


def test_factors_leave_the_other_part_as_it_is():
    x = tf.constant([complex(np.inf, 1.0)])
    y = sp.allreduce(x, sp.Average, prescale_factor=2.0).numpy()[0]
    assert (y.real, y.imag) == (np.inf, 2.0)
