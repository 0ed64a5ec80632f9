"""Gradients against the adjoint: Σ_r <ḡ_r, (Jv)_r> = Σ_s <v_s, (Jᵀḡ)_s> for random v and ḡ.

The left side is computed by NumPy from all ranks' data, the right one from the tape's gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import CONTEXTS, compiled, compiled_loop, eager, graph, normal, normals

import sciml_par.parallel as sp

N = 5


def own_rows(rank):
    return rank % 3  # uneven, and none on rank 0


def cases():
    """{name: (the collective, the shape of rank r's x, J·v of all ranks given all x and v)}."""

    def reduction(op, derivative):
        return (lambda x: sp.allreduce(x, op), lambda rank: (N,), derivative)

    def extreme(pick):
        def derivative(x, v):
            holds = x == pick(x)
            return (holds * v).sum(axis=0) / holds.sum(axis=0)

        return derivative

    found = {
        "Sum": reduction(sp.Sum, lambda x, v: v.sum(axis=0)),
        "Average": reduction(sp.Average, lambda x, v: v.mean(axis=0)),
        "Product": reduction(sp.Product, lambda x, v: (v * product_of_others(x)).sum(axis=0)),
        "Min": reduction(sp.Min, extreme(lambda x: x.min(axis=0))),
        "Max": reduction(sp.Max, extreme(lambda x: x.max(axis=0))),
        "allgather": (
            sp.allgather,
            lambda rank: (own_rows(rank), 2),
            lambda x, v: np.concatenate(v),
        ),
    }
    for root in range(sp.size()):
        found[f"broadcast from {root}"] = (
            lambda x, root=root: sp.broadcast(x, root),
            lambda rank: (N,),
            lambda x, v, root=root: v[root],
        )
    return found


def product_of_others(x):
    """Π_{r≠s} x_r for every s, [P, ...]."""
    return np.stack([np.delete(x, s, axis=0).prod(axis=0) for s in range(len(x))])


def arrays(shape_of, tag):
    """All ranks' arrays; stacked where they are alike in shape."""
    each = [normal(r, shape_of(r), tag) for r in range(sp.size())]
    return np.stack(each) if len({a.shape for a in each}) == 1 else each


def sum_over_ranks(number):
    return sum(sp.current_world().communicator.allgather_object(float(number)))


def gradients_of(collective):
    """x, ḡ ↦ Jᵀḡ."""

    def run(x, seed):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = collective(x)
        return tape.gradient(y, x, output_gradients=seed)

    return run


def input_of(name, shape_of):
    """x with ties for Min and Max (whole numbers), and with zeros for Product."""
    x = arrays(shape_of, f"x {name}")
    if name in ("Min", "Max"):
        return np.round(x)
    if name == "Product":
        x[0, 0] = 0.0  # one zero factor
        x[[0, -1], 1] = 0.0  # two, where there are two ranks
    return x


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_gradient_is_the_adjoint(context):
    """All collectives in one function, so that XLA compiles once a context."""
    rank, table = sp.rank(), cases()
    xs = {name: input_of(name, shape_of) for name, (_, shape_of, _) in table.items()}
    vs = {name: arrays(shape_of, f"v {name}") for name, (_, shape_of, _) in table.items()}
    outputs = {name: jv(xs[name], vs[name]) for name, (_, _, jv) in table.items()}
    seeds = {name: normals(outputs[name].shape, f"seed {name}") for name in table}

    def every_gradient(*tensors):
        pairs = zip(table.values(), tensors[: len(table)], tensors[len(table) :], strict=True)
        return [gradients_of(collective)(x, seed) for (collective, _, _), x, seed in pairs]

    gradients = context(every_gradient)(
        *[tf.constant(xs[name][rank]) for name in table],
        *[tf.constant(seeds[name][rank]) for name in table],
    )
    for name, gradient in zip(table, gradients, strict=True):
        assert gradient.dtype == tf.float64
        left = (seeds[name].sum(axis=0) * outputs[name]).sum()
        right = sum_over_ranks((vs[name][rank] * gradient.numpy()).sum())
        assert right == pytest.approx(left, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_ties_share_the_gradient(context):
    """All ranks but one hold the maximum, so each of them receives (Σ ḡ)/(P − 1)."""
    size = max(1, sp.size() - 1)
    x = tf.constant(np.float64(2.0 if sp.rank() < size else 1.0))
    (gradient,) = context(
        lambda x: [gradients_of(lambda x: sp.allreduce(x, sp.Max))(x, tf.ones([], tf.float64))]
    )(x)
    assert gradient.numpy() == pytest.approx(sp.size() / size if sp.rank() < size else 0.0)


@pytest.mark.parametrize("context", (eager, graph, compiled, compiled_loop))
def test_second_derivatives(context):
    """H = Σ_s <w_s, ∂L/∂x_s> and its gradient, for L = Σ_r <a_r, y> with y a product or square."""
    rank, size = sp.rank(), sp.size()
    x, a, w = (normals((3,), f"second {name}") for name in "xaw")

    def second(function):
        def run(x, a, w):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    loss = tf.reduce_sum(a * function(x))
                h = tf.reduce_sum(w * inner.gradient(loss, x))
            return outer.gradient(h, x)

        return run

    functions = [
        lambda x: sp.allreduce(x, sp.Sum) ** 2,
        lambda x: sp.allreduce(x) ** 3,
        lambda x: tf.reduce_sum(sp.allgather(x) ** 2) * tf.ones_like(x),
    ] + [lambda x: sp.allreduce(x, sp.Product)] * (size > 1)
    results = context(lambda *tensors: [second(f)(*tensors) for f in functions])(
        *[tf.constant(all_[rank]) for all_ in (x, a, w)]
    )
    total_a, total_w = a.sum(axis=0), w.sum(axis=0)
    expected = [
        2 * total_a * total_w,
        6 * x.mean(axis=0) * total_a * total_w / size**2,
        2 * total_a.sum() * w[rank],
    ]
    if size > 1:
        others = [s for s in range(size) if s != rank]
        without = {s: np.delete(x, [s, rank], axis=0).prod(axis=0) for s in others}
        expected.append(total_a * sum(w[s] * without[s] for s in others))
    for result, truth in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), truth, 1e-12, 1e-12)


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


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_through_a_while_loop(context):
    x, seeds = normals((4,), "loop x"), normals((4,), "loop seed")
    (gradient,) = context(lambda x, seed: [gradients_of(lambda x: repeated_square(x, 3))(x, seed)])(
        tf.constant(x[sp.rank()]), tf.constant(seeds[sp.rank()])
    )
    expected = gradient_of_repeated_square(x, seeds)
    np.testing.assert_allclose(gradient.numpy(), expected, 1e-12)


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_through_a_branch(context):
    x, seeds = normals((4,), "branch x"), normals((4,), "branch seed")

    def branch(x, flag):
        return tf.cond(flag, lambda: sp.allreduce(x * x, sp.Sum), lambda: sp.allreduce(x, sp.Max))

    (gradient,) = context(lambda x, seed, flag: [gradients_of(lambda x: branch(x, flag))(x, seed)])(
        tf.constant(x[sp.rank()]), tf.constant(seeds[sp.rank()]), tf.constant(True)
    )
    expected = 2 * x[sp.rank()] * seeds.sum(axis=0)
    np.testing.assert_allclose(gradient.numpy(), expected, 1e-12)


@pytest.mark.parametrize("wrap", (graph, compiled))
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


@pytest.mark.parametrize("context", (eager, graph, compiled))
def test_integers_have_no_gradient(context):
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * tf.cast(sp.allreduce(tf.constant(sp.rank() + 1), sp.Sum), x.dtype)
        return [tape.gradient(y, x)]

    (gradient,) = context(run)(tf.constant(1.0))
    assert gradient.numpy() == sum(range(1, sp.size() + 1))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_gradients_keep_the_type(dtype):
    def run(x):
        return gradients_of(lambda x: sp.allreduce(x, sp.Sum))(x, tf.ones_like(x))

    for context in (run, tf.function(run, jit_compile=True)):
        gradient = context(tf.constant([1.0, 2.0], dtype))
        assert gradient.dtype == dtype
        np.testing.assert_array_equal(tf.cast(gradient, tf.float32), [sp.size()] * 2)
