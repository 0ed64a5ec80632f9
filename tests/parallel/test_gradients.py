"""Gradients are those that TensorFlow computes of the sum of all ranks' losses in one process."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, compiled, compiled_loop, eager, graph, normals, on_two, to_the_next
from transports import device_of

import sciml_par.parallel as sp

ROWS = 2 * sp.size()
ROOT = sp.size() - 1
FLOAT, COMPLEX = "float64", "complex128"


def own_rows(rank):
    return rank % 3  # uneven, and none on rank 0


def splits(giver):
    """Rows for each rank; all of `ROWS` or fewer."""
    return [(giver + 2 * taker) % 3 for taker in range(sp.size())]


def everywhere(y):
    return [y] * sp.size()


def scattered(y):
    """Some rows on each rank, one more on the first ones where need be."""
    return tf.split(y, [len(part) for part in np.array_split(np.empty(len(y)), sp.size())])


def exchanged(xs, rows):
    each = [tf.split(x[: sum(rows(r))], rows(r)) for r, x in enumerate(xs)]
    return [tf.concat([parts[taker] for parts in each], axis=0) for taker in range(sp.size())]


def product(xs):
    return functools.reduce(operator.mul, xs)


def fused_rows(x, **on):
    parts = sp.fused_reducescatter([x, x[:1], 2 * x], sp.Sum, **on)
    return tf.concat([*parts, *sp.fused_allgather([x, x[:1]], **on)], axis=0)


def fused_rows_in_one_process(xs):
    total = tf.add_n(xs)
    rows = [tf.concat(xs, 0), tf.concat([x[:1] for x in xs], 0)]
    parts = zip(scattered(total), scattered(total[:1]), scattered(2 * total), strict=True)
    return [tf.concat([*each, *rows], axis=0) for each in parts]


COLLECTIVES = {
    "sum": (lambda x, **on: sp.allreduce(x, sp.Sum, **on), lambda xs: everywhere(tf.add_n(xs))),
    "average": (sp.allreduce, lambda xs: everywhere(tf.add_n(xs) / sp.size())),
    "product": (
        lambda x, **on: sp.allreduce(x, sp.Product, **on),
        lambda xs: everywhere(product(xs)),
    ),
    "sum scattered": (
        lambda x, **on: sp.reducescatter(x, sp.Sum, **on),
        lambda xs: scattered(tf.add_n(xs)),
    ),
    "average scattered": (sp.reducescatter, lambda xs: scattered(tf.add_n(xs) / sp.size())),
    "product scattered": (
        lambda x, **on: sp.reducescatter(x, sp.Product, **on),
        lambda xs: scattered(product(xs)),
    ),
    "scattered, fewer than ranks": (
        lambda x, **on: sp.reducescatter(x[:ROOT], sp.Sum, **on),
        lambda xs: scattered(tf.add_n(xs)[:ROOT]),
    ),
    "from the first": (lambda x, **on: sp.broadcast(x, 0, **on), lambda xs: everywhere(xs[0])),
    "from the last": (lambda x, **on: sp.broadcast(x, ROOT, **on), lambda xs: everywhere(xs[ROOT])),
    "gathered": (
        lambda x, **on: sp.allgather(x[: own_rows(sp.rank())], **on),
        lambda xs: everywhere(tf.concat([x[: own_rows(r)] for r, x in enumerate(xs)], axis=0)),
    ),
    "exchanged": (
        lambda x, **on: sp.alltoall(x, **on)[0],
        lambda xs: exchanged(xs, lambda _: [2] * sp.size()),
    ),
    "exchanged by splits": (
        lambda x, **on: sp.alltoall(x[: sum(splits(sp.rank()))], splits(sp.rank()), **on)[0],
        lambda xs: exchanged(xs, splits),
    ),
    "fused": (
        lambda x, **on: tf.add(*sp.fused_allreduce([x, x[0]], sp.Sum, **on)),
        lambda xs: everywhere(tf.add_n(xs) + tf.add_n(xs)[0]),
    ),
    "fused rows": (fused_rows, fused_rows_in_one_process),
    "with factors": (
        lambda x, **on: sp.allreduce(x, sp.Sum, prescale_factor=0.5, postscale_factor=3.0, **on),
        lambda xs: everywhere(1.5 * tf.add_n(xs)),
    ),
}
"""The collective, and what it gives to all ranks, computed in one process."""

WITH_ORDER = {
    "least": (
        lambda x, **on: sp.allreduce(x, sp.Min, **on),
        lambda xs: everywhere(tf.reduce_min(xs, 0)),
    ),
    "greatest": (
        lambda x, **on: sp.allreduce(x, sp.Max, **on),
        lambda xs: everywhere(tf.reduce_max(xs, 0)),
    ),
    "greatest scattered": (
        lambda x, **on: sp.reducescatter(x, sp.Max, **on),
        lambda xs: scattered(tf.reduce_max(xs, 0)),
    ),
}
"""Not for complex numbers. Ranks that hold the same extreme share the gradient."""


def shifted(xs):
    return [xs[-1], *xs[:-1]]


STEPS = {
    "average": COLLECTIVES["average"],
    "product": COLLECTIVES["product"],
    "from the last": COLLECTIVES["from the last"],
    "to the next": (to_the_next, shifted),
    "scattered and gathered": (
        lambda x, **on: sp.allgather(sp.reducescatter(x, **on), **on),
        lambda xs: everywhere(tf.add_n(xs) / sp.size()),
    ),
}
"""Collectives whose results have the shape of their inputs."""

OF_TYPE = {FLOAT: COLLECTIVES | WITH_ORDER, COMPLEX: COLLECTIVES}


def data(name, dtype):
    """Of all ranks, [P, ROWS, 2]: whole numbers where ties count, with zeros for products."""
    x = normals((ROWS, 2), f"real {name}")
    if name in WITH_ORDER:
        x = np.round(x)
    if dtype == COMPLEX:
        x = x + 1j * normals((ROWS, 2), f"imaginary {name}")
    if name.startswith("product"):
        x[0, 0, 0] = 0.0  # one zero factor
        x[[0, -1], 1, 0] = 0.0  # two, where there are two ranks
    return x


def loss_of(y, rank):
    """Real, another one on each rank, and not a function of |y| alone."""
    weight = tf.cast(1.0 + rank, y.dtype) - (0.5j if y.dtype.is_complex else 0.5)
    return tf.reduce_sum(tf.math.real(weight * y * y) + tf.math.real(y * tf.math.conj(y)))


def gradients(collectives, *xs, **on):
    results = []
    for x, (collective, _) in zip(xs, collectives.values(), strict=True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(collective(x, **on), sp.rank())
        results.append(tape.gradient(loss, x))
    return results


def slopes_in_one_process(results_of, xs):
    """∂ Σ_r L_r / ∂ x of all ranks."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        total = tf.add_n([loss_of(y, r) for r, y in enumerate(results_of(xs))])
    return tape.gradient(total, xs, unconnected_gradients="zero")


def in_one_process(results_of, everyone):
    """∂ Σ_r L_r / ∂ x of this rank."""
    return slopes_in_one_process(results_of, [tf.constant(x) for x in everyone])[sp.rank()]


def case(context, dtype, group="world", marks=(), **ranks):
    if ranks:
        marks = [*marks, pytest.mark.ranks(**ranks, reason="one more way to do the same")]
    name = f"{context.__name__} {dtype} {group}"
    return pytest.param(context, dtype, group, marks=marks, id=name)


GPUS = {"group": "NCCL on GPUs", "marks": [pytest.mark.gpu], "least": 2}


@pytest.mark.parametrize(
    ("context", "dtype", "group"),
    (
        case(eager, FLOAT),
        case(eager, COMPLEX, most=3),
        case(eager, FLOAT, "NCCL", least=2, most=2),
        case(compiled, FLOAT, least=2),
        case(graph, FLOAT, least=2, most=2),
        case(compiled_loop, COMPLEX, least=2, most=2),
        *(case(context, FLOAT, **GPUS) for context in (eager, graph, compiled)),
    ),
    indirect=["group"],
)
def test_the_gradient_is_that_of_one_process(context, dtype, group):
    """All collectives in one function, so that XLA compiles once a context."""
    table = STEPS if context in (graph, compiled_loop) else OF_TYPE[dtype]
    with device_of(group):
        xs = [tf.identity(tf.constant(data(name, dtype)[sp.rank()])) for name in table]
        found = context(lambda *xs: gradients(table, *xs, communicator=group))(*xs)
    for name, gradient in zip(table, found, strict=True):
        assert gradient.dtype == dtype
        expected = in_one_process(table[name][1], data(name, dtype))
        np.testing.assert_allclose(gradient, expected, 1e-11, 1e-11, err_msg=name)


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_second_derivatives(context):
    """The gradient of Σ_s <w_s, ∂L/∂x_s>."""
    directions = normals((ROWS, 2), "directions")

    def second(collective, x, w):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = loss_of(collective(x), sp.rank())
            along = tf.reduce_sum(w * inner.gradient(loss, x))
        return outer.gradient(along, x)

    def expected(results_of, everyone):
        xs = [tf.constant(x) for x in everyone]
        with tf.GradientTape() as outer:
            outer.watch(xs)
            slopes = slopes_in_one_process(results_of, xs)
            along = tf.add_n(
                [tf.reduce_sum(w * g) for w, g in zip(directions, slopes, strict=True)]
            )
        return outer.gradient(along, xs[sp.rank()], unconnected_gradients="zero")

    table = COLLECTIVES if context is eager else STEPS

    def run(w, *xs):
        pairs = zip(table.values(), xs, strict=True)
        return [second(collective, x, w) for (collective, _), x in pairs]

    everyone = {name: 1 + 0.2 * normals((ROWS, 2), name) for name in table}
    mine = [tf.constant(x[sp.rank()]) for x in (directions, *everyone.values())]
    for result, (name, (_, results_of)) in zip(context(run)(*mine), table.items(), strict=True):
        wanted = expected(results_of, everyone[name])
        np.testing.assert_allclose(result, wanted, 1e-11, 1e-11, err_msg=name)


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


@pytest.mark.ranks(least=2, most=2, reason="types do not depend on the number of ranks")
@pytest.mark.parametrize(("dtype", "jit_compile"), (("float16", False), ("bfloat16", True)))
def test_gradients_keep_the_type(dtype, jit_compile):
    def together(x):
        return sp.alltoall(sp.allgather(sp.reducescatter(sp.allreduce(x, sp.Max), sp.Sum)))[0]

    @tf.function(jit_compile=jit_compile)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = together(x)
        return tape.gradient(y, x)

    gradient = run(tf.ones([2 * sp.size()], dtype))
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(gradient, tf.float32), [sp.size()] * (2 * sp.size()))


# Through loops, branches and functions, whose backward pass TensorFlow derives


two = pytest.mark.ranks(least=2, most=2, reason="one rank transfers nothing")


def through_a_loop(collective, x, flag):
    return tf.while_loop(
        lambda i, _: i < 3,
        # A plain graph does not know how many rows the others will have.
        lambda i, y: (i + 1, tf.ensure_shape(collective(y * y), x.shape)),
        (tf.constant(0), x),
        maximum_iterations=3,
    )[1]


def through_a_branch(collective, x, flag):
    return tf.cond(
        flag, lambda: tf.ensure_shape(collective(x * x), x.shape), lambda: sp.allreduce(x, sp.Max)
    )


def in_steps(results_of, number):
    def results(xs):
        for _ in range(number):
            xs = results_of([x * x for x in xs])
        return xs

    return results


@two
@pytest.mark.parametrize(
    ("context", "through", "number"),
    ((graph, through_a_loop, 3), (compiled, through_a_loop, 3), (compiled, through_a_branch, 1)),
)
def test_through_control_flow(context, through, number):
    everyone = {name: 1 + 0.1 * normals((ROWS, 2), name) for name in STEPS}
    parts = {
        name: (lambda x, one=one: through(one, x, tf.reduce_all(x < 99.0)), all_)
        for name, (one, all_) in STEPS.items()
    }
    mine = [tf.constant(x[sp.rank()]) for x in everyone.values()]
    for name, gradient in zip(
        STEPS, context(lambda *xs: gradients(parts, *xs))(*mine), strict=True
    ):
        expected = in_one_process(in_steps(STEPS[name][1], number), everyone[name])
        np.testing.assert_allclose(gradient, expected, 1e-11, err_msg=name)


@pytest.mark.ranks(least=2, most=3, reason="on four ranks it is the same program")
@pytest.mark.parametrize("wrap", (graph, on_two(compiled)))
def test_of_a_function_whose_tape_is_outside(wrap):
    """The backward pass is a separate function, which TensorFlow derives."""
    for name in ("average", "product", "to the next"):
        one, all_ = STEPS[name]
        functions = {1: lambda x, one=one: one(x * x)}
        if wrap is graph:  # TensorFlow: no TensorList crosses the boundary of a compiled function
            functions[3] = lambda x, one=one: through_a_loop(one, x, None)
        for number, function in functions.items():
            everyone = 1 + 0.1 * normals((ROWS, 2), name)
            (gradient,) = gradients(
                {name: (wrap(function), None)}, tf.constant(everyone[sp.rank()])
            )
            expected = in_one_process(in_steps(all_, number), everyone)
            np.testing.assert_allclose(gradient, expected, 1e-11, err_msg=name)
