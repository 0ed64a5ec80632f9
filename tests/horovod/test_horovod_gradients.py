"""The gradients of the collectives as Horovod defines them, which are not all the adjoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd

EVERY_CONTEXT = {
    "eager": lambda f: f,
    "graph": tf.function(autograph=False),
    "compiled": tf.function(autograph=False, jit_compile=True),
}
CONTEXTS = pytest.mark.parametrize("context", list(EVERY_CONTEXT)[: 3 if hvd.size() == 2 else 1])
"""All of them on two ranks: how a function is run does not depend on the number of ranks."""
P = hvd.size()
RANK = hvd.rank()


def incoming(rank: int, *shape: int) -> np.ndarray:
    """The gradient that comes in on a rank."""
    return np.random.default_rng([rank, 7]).normal(size=shape)


def mean(*shape: int) -> np.ndarray:
    return np.mean([incoming(rank, *shape) for rank in range(P)], axis=0)


@dataclass
class Case:
    """A collective of float64 tensors, and what its gradient should be on this rank.

    Parameters
    ----------
    shapes : of the tensors.
    given : the gradient that comes in for each result.
    expected : the gradient by each tensor.
    """

    collective: Callable[[list[tf.Tensor]], list[tf.Tensor]]
    shapes: list[tuple[int, ...]]
    given: list[np.ndarray]
    expected: list[np.ndarray]


def check(cases: dict[str, Case], context: str) -> None:
    """Compare the gradients of Σ ḡ · y of the cases, which one function computes.

    Each case is tried in eager code, and in one of the other contexts.
    """
    if context != "eager":  # of each pair, single and grouped, one in graphs, one compiled
        other = context == "compiled"
        numbered = enumerate(cases.items())
        cases = {name: case for i, (name, case) in numbered if (i + i // 2) % 2 == other}

    def run(everything):
        found = []
        for case, xs in zip(cases.values(), everything, strict=True):
            with tf.GradientTape() as tape:
                tape.watch(xs)
                ys = case.collective(list(xs))
                terms = [tf.reduce_sum(y * g) for y, g in zip(ys, case.given, strict=True)]
                loss = tf.add_n(terms)
            found.append(tape.gradient(loss, list(xs)))
        return found

    rng = np.random.default_rng([RANK, 2])
    inputs = [[tf.constant(rng.normal(size=s)) for s in case.shapes] for case in cases.values()]
    for (name, case), found in zip(cases.items(), EVERY_CONTEXT[context](run)(inputs), strict=True):
        for one, expected in zip(found, case.expected, strict=True):
            np.testing.assert_allclose(one, expected, 1e-12, err_msg=name)


def gathering() -> dict[str, Case]:
    rows = [(rank + 1, 2) for rank in range(P)]
    total = (sum(r for r, _ in rows), 2)
    first = sum(r for r, _ in rows[:RANK])
    coming, mine = incoming(RANK, *total), mean(*total)[first : first + RANK + 1]
    one, two = [rows[RANK]], [rows[RANK]] * 2
    return {
        "allgather": Case(lambda xs: [hvd.allgather(xs[0])], one, [coming], [mine]),
        "grouped": Case(hvd.grouped_allgather, two, [coming, 2 * coming], [mine, 2 * mine]),
    }


def broadcasting() -> dict[str, Case]:
    return {
        f"broadcast from {root}": Case(
            lambda xs, root=root: [hvd.broadcast(xs[0], root)],
            [(3,)],
            [incoming(RANK, 3)],
            [mean(3) if root == RANK else np.zeros(3)],
        )
        for root in (0, P - 1)
    }


def scattering(op) -> dict[str, Case]:
    shape = (2 * P + 1, 2)  # one more on rank 0
    rows = [2 + (rank == 0) for rank in range(P)]
    everyone = np.concatenate([incoming(rank, rows[rank], 2) for rank in range(P)])
    expected = everyone * (P if op is hvd.Sum else 1)
    mine = incoming(RANK, rows[RANK], 2)
    factors = {"prescale_factor": 3.0, "postscale_factor": 0.5}
    return {
        f"reducescatter by {op}": Case(
            lambda xs: [hvd.reducescatter(xs[0], op=op, **factors)],
            [shape],
            [mine],
            [1.5 * expected],
        ),
        f"grouped by {op}": Case(
            lambda xs: hvd.grouped_reducescatter(xs, op=op),
            [shape] * 2,
            [mine, 2 * mine],
            [expected, 2 * expected],
        ),
    }


def exchanging() -> dict[str, Case]:
    splits = [RANK + 1] * P
    received = sum(range(1, P + 1))
    everyone = [incoming(rank, received) for rank in range(P)]  # rows of rank 0 first, then 1, …
    first = sum(range(1, RANK + 1))
    expected = np.concatenate([each[first : first + RANK + 1] for each in everyone])
    return {
        "alltoall": Case(
            lambda xs: [hvd.alltoall(xs[0], splits)[0]],
            [(P * (RANK + 1),)],
            [everyone[RANK]],
            [expected],
        )
    }


@CONTEXTS
def test_of_what_moves_rows(context):
    cases = gathering() | broadcasting() | scattering(hvd.Sum) | scattering(hvd.Average)
    check(cases | exchanging(), context)


OPERATIONS = {
    hvd.Sum: np.sum,
    hvd.Average: np.mean,
    hvd.Min: np.min,
    hvd.Max: np.max,
    hvd.Product: np.prod,
}


def reducing(op) -> dict[str, Case]:
    def reduced(factor: float, scale: float) -> np.ndarray:
        everyone = [scale * factor * incoming(rank, 3) for rank in range(P)]
        return OPERATIONS[op](everyone, axis=0)

    coming = incoming(RANK, 3)
    return {
        f"allreduce by {op}": Case(
            lambda xs: [hvd.allreduce(xs[0], op=op, prescale_factor=2.0, postscale_factor=0.25)],
            [(3,)],
            [coming],
            [0.25 * reduced(1, 2.0)],
        ),
        f"grouped by {op}": Case(
            lambda xs: hvd.grouped_allreduce(xs, op=op),
            [(3,)] * 2,
            [coming, 2 * coming],
            [reduced(1, 1.0), reduced(2, 1.0)],
        ),
    }


@CONTEXTS
def test_of_allreduce(context):
    cases: dict[str, Case] = {}
    for op in OPERATIONS:
        cases |= reducing(op)
    check(cases, context)


def test_of_adasum_and_slices():
    """Adasum adds orthogonal gradients, and averages parallel ones."""

    def adasum(xs):
        return [hvd.allreduce(xs[0], op=hvd.Adasum)]

    def of_slices(xs):
        slices = tf.IndexedSlices(xs[0], tf.constant([RANK]), dense_shape=[P, 2])
        return [tf.convert_to_tensor(hvd.allreduce(slices, op=hvd.Sum))]

    mine = mean(P, 2)[RANK : RANK + 1]
    cases = {
        "orthogonal": Case(adasum, [(P,)], [np.eye(P)[RANK]], [np.ones(P)]),
        "parallel": Case(adasum, [(P,)], [np.ones(P)], [np.ones(P)]),
        "slices": Case(of_slices, [(1, 2)], [incoming(RANK, P, 2)], [mine]),
    }
    check(cases, "eager")


@CONTEXTS
def test_of_gradients(context):
    """Of a gradient by a variable, and by what comes in, where it is the same allreduce again."""
    w = tf.Variable(float(RANK + 1), dtype=tf.float64)
    second = tf.constant(incoming(RANK, 3))

    def run():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = hvd.allreduce(w**2)
            by_w = inner.gradient(y, w)  # the mean over the ranks of 2w
        x, coming = tf.ones([3], tf.float64), tf.ones([3], tf.float64)
        with tf.GradientTape() as other:
            other.watch(coming)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = hvd.allreduce(x, op=hvd.Max)
            by_x = inner.gradient(y, x, coming)
        return by_w, outer.gradient(by_w, w), other.gradient(by_x, coming, second)

    by_w, twice, by_coming = EVERY_CONTEXT[context](run)()
    np.testing.assert_allclose(by_w, 2.0 * (RANK + 1))
    np.testing.assert_allclose(twice, 2.0)
    everyone = [incoming(rank, 3) for rank in range(P)]
    np.testing.assert_allclose(by_coming, np.max(everyone, axis=0), 1e-12)


def test_in_a_graph_of_tensorflow_1():
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float64, [None, 2])  # the number of rows is open
        y = hvd.allgather(x)
        weights = v1.placeholder(tf.float64, [None, 2])
        gradient = tf.gradients(y, x, grad_ys=weights)[0]
        total = sum(range(1, P + 1))
        feed = {x: np.ones([RANK + 1, 2]), weights: incoming(RANK, total, 2)}
        found = session.run(gradient, feed)
    first = sum(range(1, RANK + 1))
    np.testing.assert_allclose(found, mean(total, 2)[first : first + RANK + 1], 1e-12)


def test_integers_have_none():
    x = tf.constant([RANK])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = hvd.broadcast(hvd.allgather(x), 0)
    np.testing.assert_array_equal(y, range(P))
    assert tape.gradient(y, x) is None
