"""Collectives run in the order of the program, the same on all ranks."""

from __future__ import annotations

import pytest
import tensorflow as tf
from ranks import compiled, graph, on_two, same_on_all_ranks

import sciml_par.parallel as sp

needs_ranks = pytest.mark.ranks(
    least=2, most=3, reason="one rank transfers nothing; where three agree, a fourth adds nothing"
)

two_ranks = pytest.mark.ranks(
    least=2, most=2, reason="the tests of gradients show the same of more ranks"
)


class Since:
    """The requests of the world's collectives from now on, in the order in which they ran.

    It is the rank's own history, whether Python has executed them or machine code.
    """

    def __init__(self):
        self._progress = sp.current_world().communicator.progress
        self._first = self._progress.sequence + 1

    def __iter__(self):
        for number, announcement in self._progress.history:
            if number >= self._first and announcement.request is not None:
                yield announcement.request


@pytest.fixture
def requests():
    return Since()


def sizes_of(requests):
    """The number of elements of each collective's input; 0 for scalars."""
    return [request.shape[0] if request.shape else 0 for request in requests]


def total(n, x):
    """A collective on n elements that depends on no other."""
    return tf.reduce_sum(sp.allreduce(tf.fill([n], x), sp.Sum))


def program(x):
    """Sizes tell the collectives apart; nothing but the program orders them."""

    @tf.function
    def inner(x):
        return total(4, x) + total(3, x)

    parts = [total(12, x), total(1, x)]
    parts.append(
        tf.while_loop(
            lambda i, s: i < 2,
            lambda i, s: (i + 1, s + total(9, x) + inner(x)),
            (tf.constant(0), tf.zeros_like(x)),
            maximum_iterations=2,
        )[1]
    )
    parts.append(tf.cond(x > 0, lambda: total(5, x) + total(2, x), lambda: total(6, x)))
    parts.append(tf.cond(x < 0, lambda: total(7, x), lambda: total(8, x)))
    parts.append(inner(x + 1))
    sp.allreduce(tf.ones(20), sp.Sum)  # whose result nobody uses
    parts += [total(n, x) for n in (11, 10, 13)]
    return tf.reduce_sum(tf.stack(parts[::-1]))


PROGRAM_ORDER = [12, 1, 9, 4, 3, 9, 4, 3, 5, 2, 8, 4, 3, 20, 11, 10, 13]


@two_ranks
@pytest.mark.parametrize("context", (graph, compiled))
def test_independent_collectives_keep_the_order_of_the_program(context, requests):
    run = context(program)
    run(tf.constant(1.0))
    run(tf.constant(1.0))
    assert sizes_of(requests) == PROGRAM_ORDER * 2
    assert same_on_all_ranks([sizes_of(requests)])


@two_ranks
def test_gradients_run_in_one_order(requests):
    """Which order is TensorFlow's affair, but it must be the same on all ranks."""

    @compiled
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
        return tape.gradient(y, x)

    run(tf.constant(1.0))
    # Each but the one that nobody uses has a gradient, with a collective of the same size.
    assert sorted(sizes_of(requests)) == sorted(
        PROGRAM_ORDER + [n for n in PROGRAM_ORDER if n != 20]
    )
    assert same_on_all_ranks([sizes_of(requests)])


@needs_ranks
@pytest.mark.parametrize("wrap", (on_two(graph), compiled))
def test_a_derived_gradient_has_one_order(wrap, requests):
    """With the tape outside, TensorFlow derives the backward function, and orders nothing in it.

    All ranks but the root could send the zeros that they pass back before they have received.
    """

    def part(n, x):
        return sp.broadcast(sp.allreduce(tf.fill([n], x), sp.Sum), n % sp.size())

    @wrap
    def run(x):
        return tf.add_n([tf.reduce_sum(part(n, x)) for n in range(1, 9)])

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    tape.gradient(y, x)
    twice = [n for n in range(1, 9) for _ in range(2)]
    sizes = sizes_of(requests)
    assert sizes[:16] == twice
    assert sorted(sizes[16:]) == twice
    assert same_on_all_ranks([sizes])


def every_kind(x):
    """One collective of each kind, on as many elements as there are ranks; twice in a loop.

    None depends on another, and their inputs are ready at once.
    """

    def each(x):
        parts = [sp.alltoall(x)[0], sp.allgather(x), sp.reducescatter(x, sp.Sum)]
        parts += [sp.broadcast(x, sp.size() - 1), sp.allreduce(x, sp.Sum)]
        return tf.add_n([tf.reduce_sum(part) for part in parts[::-1]])

    loop = tf.while_loop(
        lambda i, s: i < 2,
        lambda i, s: (i + 1, s + each(x)),
        (tf.constant(0), tf.zeros([], x.dtype)),
        maximum_iterations=2,
    )
    return loop[1] + each(x)


KINDS = ["alltoall", "allgather", "reducescatter", "broadcast", "allreduce"] * 3
# The adjoints: alltoall of itself, allgather of reducescatter, allreduce of the others.
KINDS_BACK = ["alltoall", "allreduce", "allgather", "allreduce", "allreduce"] * 3


@needs_ranks
@pytest.mark.parametrize("context", (on_two(graph), compiled))
def test_gradients_of_every_kind_run_in_one_order(context, requests):
    @context
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = every_kind(x)
        return tape.gradient(y, x)

    run(tf.ones([sp.size()]))
    kinds = [request.signature.kind for request in requests]
    assert kinds[: len(KINDS)] == KINDS
    assert sorted(kinds[len(KINDS) :]) == sorted(KINDS_BACK)
    assert same_on_all_ranks([kinds])


@needs_ranks
def test_eager_code_and_compiled_functions_take_turns(requests):
    run = tf.function(lambda x: total(2, x), jit_compile=True)
    for n in (3, 4, 5):
        total(n, tf.constant(1.0))
        run(tf.constant(float(n)))
    assert sizes_of(requests) == [3, 2, 4, 2, 5, 2]
    assert same_on_all_ranks([sizes_of(requests)])
