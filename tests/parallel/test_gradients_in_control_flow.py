"""Gradients through loops, branches and functions whose backward pass TensorFlow derives."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from adjoints import gradients_of, product_of_others, to_the_next
from ranks import EAGER_FIRST, compiled, eager, graph, normals, on_two

import sciml_par.parallel as sp


def repeated_square(x, steps):
    """y ↦ mean over the ranks of y², `steps` times, from y = x."""
    return tf.while_loop(
        lambda i, _: i < steps,
        lambda i, y: (i + 1, sp.allreduce(y * y)),
        (tf.constant(0), x),
        maximum_iterations=steps,
    )[1]


def gradient_of_repeated_square(x, seeds):
    """By hand, for three steps: y₁ = mean x², y = y₁⁴."""
    first = (x**2).mean(axis=0)
    return seeds.sum(axis=0) * 4 * first**3 * 2 * x[sp.rank()] / len(x)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_through_a_while_loop(context):
    x, seeds = normals((4,), "loop x"), normals((4,), "loop seed")
    (gradient,) = context(lambda x, seed: [gradients_of(lambda x: repeated_square(x, 3))(x, seed)])(
        tf.constant(x[sp.rank()]), tf.constant(seeds[sp.rank()])
    )
    expected = gradient_of_repeated_square(x, seeds)
    np.testing.assert_allclose(gradient.numpy(), expected, 1e-12)


@pytest.mark.parametrize("context", (eager, on_two(graph), compiled))
def test_the_other_collectives_through_a_while_loop(context):
    """By hand, for three steps: z = mean x⁸; what rank r has of it at the end is rank r − 3's."""
    rank, size = sp.rank(), sp.size()
    x, seeds = normals((4,), "other x"), normals((4,), "other seed")

    def step(shifted, mean):
        # A plain graph does not know how many rows the others will have.
        next_shifted = tf.ensure_shape(to_the_next(shifted**2), shifted.shape)
        return next_shifted, tf.ensure_shape(sp.allgather(sp.reducescatter(mean**2)), mean.shape)

    def run(x):
        shifted, mean = tf.while_loop(
            lambda i, *_: i < 3,
            lambda i, *y: (i + 1, *step(*y)),
            (tf.constant(0), x, x),
            maximum_iterations=3,
        )[1:]
        return shifted + mean

    (gradient,) = context(lambda x, seed: [gradients_of(run)(x, seed)])(
        tf.constant(x[rank]), tf.constant(seeds[rank])
    )
    expected = 8 * x[rank] ** 7 * seeds[(rank + 3) % size] + gradient_of_repeated_square(x, seeds)
    np.testing.assert_allclose(gradient.numpy(), expected, 1e-12, 1e-14)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_through_a_branch(context):
    x, seeds = normals((4,), "branch x"), normals((4,), "branch seed")

    def branch(x, flag):
        return tf.cond(flag, lambda: sp.allreduce(x * x, sp.Sum), lambda: sp.allreduce(x, sp.Max))

    (gradient,) = context(lambda x, seed, flag: [gradients_of(lambda x: branch(x, flag))(x, seed)])(
        tf.constant(x[sp.rank()]), tf.constant(seeds[sp.rank()]), tf.constant(True)
    )
    expected = 2 * x[sp.rank()] * seeds.sum(axis=0)
    np.testing.assert_allclose(gradient.numpy(), expected, 1e-12)


@pytest.mark.ranks(most=3, reason="on four ranks it is the same program")
@pytest.mark.parametrize("wrap", (graph, on_two(compiled)))
def test_of_a_function_whose_tape_is_outside(wrap):
    """The backward pass is a function of its own, which TensorFlow derives."""
    x, seeds = normals((4,), "outside x"), normals((4,), "outside seed")
    table = {
        "loop": (lambda x: repeated_square(x, 3), gradient_of_repeated_square(x, seeds)),
        "Product": (
            lambda x: sp.allreduce(x, sp.Product),
            product_of_others(x)[sp.rank()] * seeds.sum(axis=0),
        ),
        "two": (
            lambda x: sp.broadcast(sp.allreduce(x, sp.Sum) * x, 0),
            expected_of_two(x, seeds),
        ),
        "Product scattered": (
            lambda x: sp.allgather(sp.reducescatter(x, sp.Product)),
            product_of_others(x)[sp.rank()] * seeds.sum(axis=0),
        ),
        "alltoall": (
            lambda x: to_the_next(x * x),
            2 * x[sp.rank()] * seeds[(sp.rank() + 1) % sp.size()],
        ),
    }
    if wrap is compiled:  # TensorFlow: no TensorList crosses the boundary of a compiled function
        del table["loop"]
    for name, (function, expected) in table.items():
        gradient = gradients_of(wrap(function))(
            tf.constant(x[sp.rank()]), tf.constant(seeds[sp.rank()])
        )
        np.testing.assert_allclose(gradient.numpy(), expected, 1e-12, 1e-13, err_msg=name)


def expected_of_two(x, seeds):
    """y_r = x_0 Σ x on every rank."""
    total = seeds.sum(axis=0)
    return total * x[0] + (total * x.sum(axis=0) if sp.rank() == 0 else 0.0)
