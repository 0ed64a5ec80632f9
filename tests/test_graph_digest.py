"""Digests of graphs are equal for equal computations, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par._graph_digest import GraphDigest
from sciml_par.problems import Dirichlet, Field, Interval, Problem, impose, laplacian
from sciml_par.problems.fields.recording import trace
from sciml_par.problems.problem_check import digest_of_ansatz

points = tf.TensorSpec([5, 2], tf.float64)


def digest(function: Callable[[Any], Any]) -> GraphDigest:
    return trace(lambda u, x: function(x), Field(tf.identity), [points]).digest()


class Law:
    nu = 1.0
    table = {"k": 2}

    @staticmethod
    def of(x: Any) -> Any:
        return Law.nu * x

    @classmethod
    def times(cls, x: Any) -> Any:
        return cls.table["k"] * x


def times(k: Any) -> Callable[[Any], Any]:
    return lambda x: tf.sin(x) * k


def looped(k: float) -> Callable[[Any], Any]:
    return lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * k), (0, x))[1]


def branched(k: float) -> Callable[[Any], Any]:
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * k, lambda: x)


def compiled(k: float) -> Callable[[Any], Any]:
    inner = tf.function(lambda x: x * k)
    return lambda x: inner(x) + inner(2 * x)


def held(k: float) -> Callable[[Any], Any]:
    tensor = tf.constant(np.linspace(0, k, 1000))  # too large to become a constant
    return lambda x: x[:1, :1] * tensor[:, None]


@pytest.mark.parametrize("make", [times, looped, branched, compiled, held])
def test_what_is_computed_decides(make: Callable[[float], Any]) -> None:
    one, same, other, close = (digest(make(k)) for k in (1.5, 1.5, 2.5, 1.5 * (1 + 1e-15)))
    assert one == same and one.key is not None and hash(one.key) == hash(same.key)
    assert one.text != other.text and one.key != other.key
    # The last bits may differ between processors, and yet they are another computation.
    assert one.text == close.text and one.key != close.key


def test_class_attributes_and_dict_entries_show(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [digest(Law.of), digest(Law.times)]
    monkeypatch.setattr(Law, "nu", 8.0)
    monkeypatch.setitem(Law.table, "k", 3)
    after = [digest(Law.of), digest(Law.times)]
    for one, other in zip(before, after, strict=True):
        assert one.text != other.text and one.key != other.key


def test_variables_count_by_identity_in_keys_and_by_value_in_texts() -> None:
    one, other = (tf.Variable(2.0, dtype=tf.float64, trainable=False) for _ in range(2))
    before = digest(lambda x: one * x)
    assert before.text == digest(lambda x: other * x).text
    assert before.key != digest(lambda x: other * x).key
    one.assign(3.0)
    after = digest(lambda x: one * x)
    assert before.text != after.text and before.key == after.key


def test_equal_draws_are_not_one_draw() -> None:
    def draw(seed: int = 1) -> Any:
        return tf.random.normal([5, 2], seed=seed, dtype=tf.float64)

    def once(x: Any) -> Any:
        drawn = tf.random.normal([5, 2], dtype=tf.float64)
        return x + drawn - drawn

    def twice(x: Any) -> Any:
        normal = tf.raw_ops.RandomStandardNormal
        drawn = [normal(shape=[5, 2], dtype=tf.float64, seed=0, seed2=0) for _ in range(2)]
        return x + drawn[0] - drawn[1]

    assert digest(once) == digest(once) != digest(twice)
    assert digest(lambda x: x + draw(1)) != digest(lambda x: x + draw(2))


def test_the_order_of_what_does_not_depend_on_each_other_does_not_count() -> None:
    def turned(x: Any) -> Any:
        second = tf.cos(x)
        return tf.sin(x) + second

    assert digest(lambda x: tf.sin(x) + tf.cos(x)) == digest(turned)
    assert digest(lambda x: tf.sin(x) - tf.cos(x)) != digest(lambda x: tf.cos(x) - tf.sin(x))


@tf.custom_gradient
def other_gradient(x: Any) -> Any:
    return x, lambda upstream: 2 * upstream


@pytest.mark.parametrize(
    "opaque",
    [
        lambda x: tf.py_function(np.sin, [x], tf.float64),
        lambda x: tf.numpy_function(np.sin, [x], tf.float64),
        other_gradient,
    ],
)
def test_there_is_no_key_where_the_graph_does_not_tell_all(opaque: Any) -> None:
    found = digest(opaque)
    assert found.key is None
    assert found.text == digest(opaque).text, "the ranks have the same program"


def test_gradients_that_tensorflow_defines_are_known() -> None:
    assert digest(tf.nn.silu).key is not None
    assert digest(tf.nn.silu) == digest(tf.nn.silu) != digest(tf.nn.softplus)


def test_an_ansatz_is_told_from_others() -> None:
    def problem(ansatz: Any) -> Problem:
        return Problem(Interval(0, 1), laplacian, ansatz=ansatz)

    def end(k: float) -> Any:
        return lambda u, x: k * x * u(x)

    assert digest_of_ansatz(problem(None)) is None
    one, same, other = (digest_of_ansatz(problem(end(k))) for k in (1e-5, 1e-5, 2e-5))
    assert one == same != other
    assert one is not None and other is not None and one.text != other.text
    imposed = [impose(Interval(0, 1), Dirichlet(k)) for k in (0.0, 0.0, 1.0)]
    first, again, third = (digest_of_ansatz(problem(each)) for each in imposed)
    assert first == again != third
