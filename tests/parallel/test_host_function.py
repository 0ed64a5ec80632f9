"""Functions of the host's memory inside programs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.parallel.execution.host_function import call_on_host

pytestmark = pytest.mark.ranks(most=1, reason="it is about the memory of a rank")

COMPILED = [False, True]


def sum_and_outer(arguments: Sequence[Any], results: Sequence[Any]) -> None:
    a, b = arguments
    results[0][...] = a + b
    results[1][...] = np.outer(a, b)


def both(a: Any, b: Any) -> list[Any]:
    n = a.shape[0]
    return call_on_host(sum_and_outer, [a, b], [(n,), (n, n)])


@pytest.mark.parametrize("compiled", [None, *COMPILED])
def test_results_are_those_of_the_function(compiled: bool | None) -> None:
    run = both if compiled is None else tf.function(both, jit_compile=compiled, autograph=False)
    for n, dtype in ((0, "float64"), (1, "int32"), (3, "float32")):
        a = np.arange(n).astype(dtype) + 7
        b = a[::-1] * 2
        total, outer = run(tf.constant(a), tf.constant(b.copy()))
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(outer, np.outer(a, b))


@pytest.mark.ranks(least=2, most=2, reason="one rank has no collectives")
@pytest.mark.parametrize("compiled", COMPILED)
def test_in_a_loop_beside_collectives(compiled: bool) -> None:
    seen: list[float] = []

    def note(arguments: Sequence[Any], results: Sequence[Any]) -> None:
        seen.append(float(arguments[0][0]))
        results[0][...] = arguments[0] + 1

    @tf.function(jit_compile=compiled, autograph=False)
    def run(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            x = sp.allreduce(x, sp.Max)
            return i + 1, call_on_host(note, [x], [(1,)])[0]

        return tf.while_loop(lambda i, _: i < 4, step, (tf.constant(0), x))[1]

    assert run(tf.constant([float(sp.rank())])).numpy() == sp.size() - 1 + 4
    assert seen == [sp.size() - 1.0 + k for k in range(4)]


def fails(arguments: Sequence[Any], results: Sequence[Any]) -> None:
    raise KeyError("lost")


@pytest.mark.parametrize("compiled", COMPILED)
def test_an_exception_is_the_programs_error_and_says_where_it_was(compiled: bool) -> None:
    run = tf.function(
        lambda x: call_on_host(fails, [x], [(2,)])[0], jit_compile=compiled, autograph=False
    )
    with pytest.raises(tf.errors.OpError, match="(?s)fails.*KeyError|KeyError.*fails") as caught:
        run(tf.constant([1.0, 2.0]))
    assert "lost" in str(caught.value)
    again = tf.function(both, jit_compile=compiled, autograph=False)
    np.testing.assert_array_equal(again(tf.constant([1.0]), tf.constant([2.0]))[0], [3.0])


def test_several_threads_at_a_time() -> None:
    run = tf.function(both, jit_compile=True, autograph=False)
    run(tf.zeros([50], tf.float64), tf.zeros([50], tf.float64))
    wrong: list[int] = []

    def work(number: int) -> None:
        a = np.full(50, float(number))
        for _ in range(20):
            if not (run(tf.constant(a), tf.constant(a))[0].numpy() == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
