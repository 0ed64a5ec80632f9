"""Gradients against the adjoint: Σ_r <ḡ_r, (Jv)_r> = Σ_s <v_s, (Jᵀḡ)_s> for random v and ḡ.

The left side is computed by NumPy from all ranks' data, the right one from the tape's gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from adjoints import gradients_of, product_of_others, to_the_next
from ranks import CONTEXTS, EAGER_FIRST, compiled_loop, normal, normals, on_two
from selection import in_groups

import sciml_par.parallel as sp

N = 5


def own_rows(rank):
    return rank % 3  # uneven, and none on rank 0


def rows_between(giver, taker):
    return (giver + 2 * taker) % 3


def splits(giver):
    return [rows_between(giver, taker) for taker in range(sp.size())]


def cases():
    """{name: (the collective, the shape of rank r's x, J·v of all ranks given all x and v)}."""
    found = {
        "rows gathered": (
            sp.allgather,
            lambda rank: (own_rows(rank), 2),
            lambda x, v: everywhere(np.concatenate(v)),
        ),
        "rows exchanged": (
            lambda x: sp.alltoall(x, splits(sp.rank()))[0],
            lambda rank: (sum(splits(rank)), 2),
            lambda x, v: exchanged(v),
        ),
        "rows scattered, fewer than ranks": (
            lambda x: sp.reducescatter(x, sp.Sum),
            lambda rank: (sp.size() - 1, 2),
            lambda x, v: scattered(v.sum(axis=0)),
        ),
    }
    for op, derivative in DERIVATIVES.items():
        found[f"{op.value} reduced"] = (
            lambda x, op=op: sp.allreduce(x, op),
            lambda rank: (N,),
            lambda x, v, derivative=derivative: everywhere(derivative(x, v)),
        )
        found[f"{op.value} scattered"] = (
            lambda x, op=op: sp.reducescatter(x, op),
            lambda rank: (N,),
            lambda x, v, derivative=derivative: scattered(derivative(x, v)),
        )
    for root in range(sp.size()):
        found[f"{root} broadcast"] = (
            lambda x, root=root: sp.broadcast(x, root),
            lambda rank: (N,),
            lambda x, v, root=root: everywhere(v[root]),
        )
    return found


def everywhere(y):
    """The same on every rank."""
    return [y] * sp.size()


def scattered(y):
    """Some rows on each rank, one more on the first ones where need be."""
    return np.array_split(y, sp.size())


def exchanged(each):
    """What alltoall makes of all ranks' tensors."""
    parts = [np.split(x, np.cumsum(splits(r))[:-1]) for r, x in enumerate(each)]
    return [np.concatenate([given[taker] for given in parts]) for taker in range(sp.size())]


def extreme(pick):
    def derivative(x, v):
        holds = x == pick(x)
        return (holds * v).sum(axis=0) / holds.sum(axis=0)

    return derivative


DERIVATIVES = {
    sp.Sum: lambda x, v: v.sum(axis=0),
    sp.Average: lambda x, v: v.mean(axis=0),
    sp.Product: lambda x, v: (v * product_of_others(x)).sum(axis=0),
    sp.Min: extreme(lambda x: x.min(axis=0)),
    sp.Max: extreme(lambda x: x.max(axis=0)),
}


def arrays(shape_of, tag):
    """All ranks' arrays; stacked where they are alike in shape."""
    each = [normal(r, shape_of(r), tag) for r in range(sp.size())]
    return np.stack(each) if len({a.shape for a in each}) == 1 else each


def sum_over_ranks(number):
    return sum(sp.current_world().communicator.allgather_object(float(number)))


def input_of(name, shape_of):
    """x with ties for Min and Max (whole numbers), and with zeros for Product."""
    x = arrays(shape_of, f"x {name}")
    if name.startswith(("Min", "Max")):
        return np.round(x)
    if name.startswith("Product"):
        x[0, 0] = 0.0  # one zero factor
        x[[0, -1], 1] = 0.0  # two, where there are two ranks
    return x


@in_groups("context, names", CONTEXTS, [tuple(name.split(" ", 1)) for name in cases()])
def test_the_gradient_is_the_adjoint(context, names):
    """All collectives in one function, so that XLA compiles once a context."""
    rank, everything = sp.rank(), cases()
    table = {name: everything[name] for name in map(" ".join, names)}
    xs = {name: input_of(name, shape_of) for name, (_, shape_of, _) in table.items()}
    vs = {name: arrays(shape_of, f"v {name}") for name, (_, shape_of, _) in table.items()}
    outputs = {name: jv(xs[name], vs[name]) for name, (_, _, jv) in table.items()}
    seeds = {
        name: [normal(r, y.shape, f"seed {name}") for r, y in enumerate(outputs[name])]
        for name in table
    }

    def every_gradient(*tensors):
        pairs = zip(table.values(), tensors[: len(table)], tensors[len(table) :], strict=True)
        return [gradients_of(collective)(x, seed) for (collective, _, _), x, seed in pairs]

    gradients = context(every_gradient)(
        *[tf.constant(xs[name][rank]) for name in table],
        *[tf.constant(seeds[name][rank]) for name in table],
    )
    for name, gradient in zip(table, gradients, strict=True):
        assert gradient.dtype == tf.float64
        left = sum((g * y).sum() for g, y in zip(seeds[name], outputs[name], strict=True))
        right = sum_over_ranks((vs[name][rank] * gradient.numpy()).sum())
        assert right == pytest.approx(left, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_ties_share_the_gradient(context):
    """All ranks but one hold the maximum, so each of them receives (Σ ḡ)/(P − 1)."""
    size = max(1, sp.size() - 1)
    x = tf.constant(np.float64(2.0 if sp.rank() < size else 1.0))
    (gradient,) = context(
        lambda x: [gradients_of(lambda x: sp.allreduce(x, sp.Max))(x, tf.ones([], tf.float64))]
    )(x)
    assert gradient.numpy() == pytest.approx(sp.size() / size if sp.rank() < size else 0.0)


@pytest.mark.parametrize("context", (*EAGER_FIRST, on_two(compiled_loop)))
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
        lambda x: tf.reduce_sum(sp.reducescatter(x, sp.Sum) ** 2) * tf.ones_like(x),
        lambda x: to_the_next(x) ** 3,
        lambda x: sp.broadcast(x, size - 1) ** 3,
    ] + [lambda x: sp.allreduce(x, sp.Product)] * (size > 1)
    results = context(lambda *tensors: [second(f)(*tensors) for f in functions])(
        *[tf.constant(all_[rank]) for all_ in (x, a, w)]
    )
    total_a, total_w = a.sum(axis=0), w.sum(axis=0)
    expected = [
        2 * total_a * total_w,
        6 * x.mean(axis=0) * total_a * total_w / size**2,
        2 * total_a.sum() * w[rank],
        2 * np.repeat(a.sum(axis=1), rows_of_each(3)) * total_w,
        6 * a[(rank + 1) % size] * x[rank] * w[rank],
        6 * total_a * x[rank] * w[rank] * (rank == size - 1),
    ]
    if size > 1:
        others = [s for s in range(size) if s != rank]
        without = {s: np.delete(x, [s, rank], axis=0).prod(axis=0) for s in others}
        expected.append(total_a * sum(w[s] * without[s] for s in others))
    for result, truth in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), truth, 1e-12, 1e-12)


def rows_of_each(n):
    return [len(part) for part in scattered(np.empty(n))]


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_integers_have_no_gradient(context):
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            numbers = tf.fill([sp.size()], sp.rank() + 1)
            whole = [
                sp.allreduce(numbers[0], sp.Sum),
                sp.reducescatter(numbers, sp.Sum)[0],
                tf.reduce_sum(sp.alltoall(numbers)[0]),
            ]
            y = x * tf.cast(tf.stack(whole), x.dtype)
        return [tape.gradient(y, x)]

    (gradient,) = context(run)(tf.constant([1.0] * 3))
    assert gradient.numpy().tolist() == [sum(range(1, sp.size() + 1))] * 3


@pytest.mark.ranks(most=2, reason="types do not depend on the number of ranks")
@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_gradients_keep_the_type(dtype):
    def run(x):
        together = lambda x: sp.alltoall(sp.allgather(sp.reducescatter(x, sp.Sum)))[0]  # noqa: E731
        collectives = (lambda x: sp.allreduce(x, sp.Sum), together)
        return [gradients_of(collective)(x, tf.ones_like(x)) for collective in collectives]

    for context in (run, tf.function(run, jit_compile=True)):
        for gradient in context(tf.ones([2 * sp.size()], dtype)):
            assert gradient.dtype == dtype
            expected = [sp.size()] * (2 * sp.size())
            np.testing.assert_array_equal(tf.cast(gradient, tf.float32), expected)
