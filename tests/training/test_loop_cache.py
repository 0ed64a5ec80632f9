"""A second training of the same kind compiles nothing, and another kind is not mistaken for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Problem, Residual, laplacian, poisson
from sciml_par.training import Adam, train
from sciml_par.training.function_key import function_key

tiny = partial(MLP, width=4, depth=1)
small = partial(train, network=tiny, steps=20, points=11, evaluation_points=11, progress=False)
factor = 1.0


def reads_a_global(u: Any, x: Any) -> Any:
    return factor * laplacian(u, x) - 1.0


def compiled() -> int:
    """How many loops have been made, of all kinds and shapes."""
    loops = sp.current_world().kept.get("loops", {})
    return sum(len(loop._programs) for loop in loops.values())


@pytest.mark.ranks(most=2, reason="loops are kept on each rank")
def test_a_second_training_compiles_nothing() -> None:
    """Not even with other data, weights, seed, learning rate, steps and cadence."""
    small(poisson(k=1))
    before = compiled()
    assert before > 0
    again = small(poisson(k=3), seed=5, optimizer=Adam(3e-3), steps=31, log_every=3)
    weighted = Problem(
        Interval(-1, 1),
        poisson().residuals,
        conditions=[Dirichlet(0.0, weight=7.0)],
        exact=np.sin,
    )
    small(weighted)
    assert compiled() == before
    assert again.members[0].steps == 31
    assert again.members[0].losses[0] > 1e3, "the loss is that of k = 1"


@pytest.mark.ranks(most=1, reason="loops are kept on each rank")
def test_other_numbers_are_another_computation() -> None:
    """A captured number has changed between the two, as in a notebook."""
    global factor  # noqa: PLW0603
    problem = Problem(Interval(0, 1), reads_a_global, conditions=[Dirichlet(0.0)])
    factor = 1.0
    first = small(problem).members[0].losses
    factor = 3.0
    second = small(problem).members[0].losses
    factor = 1.0
    third = small(problem).members[0].losses
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(first, third)


class Model:
    """An object with attributes that anybody may change."""

    def __init__(self, value: float) -> None:
        self.value = value

    def residual(self, u: Any, x: Any) -> Any:
        return self.value * laplacian(u, x) - 1.0


@pytest.mark.ranks(most=1, reason="loops are kept on each rank")
def test_an_object_that_may_change_is_compiled_each_time() -> None:
    model = Model(1.0)
    problem = Problem(Interval(0, 1), model.residual, conditions=[Dirichlet(0.0)])
    first = small(problem).members[0].losses
    model.value = 3.0
    second = small(problem).members[0].losses
    assert not np.allclose(first, second)


def with_number(value: float) -> Callable[..., Any]:
    return lambda u, x: value * u(x)


def with_array(values: Any) -> Callable[..., Any]:
    return lambda u, x: values * u(x)


def calls(other: Callable[..., Any]) -> Callable[..., Any]:
    return lambda u, x: other(u, x) - 1.0


def recursive(u: Any, x: Any, n: int = 3) -> Any:
    return u(x) if n == 0 else recursive(u, x, n - 1)


local = pytest.mark.ranks(most=1, reason="keys of functions are local")


@local
def test_keys_are_equal_for_equal_computations() -> None:
    tensor = tf.constant([1.0])
    pairs = [
        (with_number(2.0), with_number(2.0)),
        (with_array(np.arange(3.0)), with_array(np.arange(3.0))),
        (with_array(tensor), with_array(tensor)),
        (with_array([1.0, {"a": 2}]), with_array([1.0, {"a": 2}])),
        (calls(with_number(2.0)), calls(with_number(2.0))),
        (partial(recursive, n=2), partial(recursive, n=2)),
        (Residual(with_number(2.0), weight=3.0).residual, Residual(with_number(2.0)).residual),
        (Dirichlet(1.0, weight=3.0).residual, Dirichlet(1.0).residual),
        (Adam(1e-3), Adam(1e-3)),
    ]
    for one, other in pairs:
        assert function_key(one) == function_key(other)
        assert function_key(one) is not None and hash(function_key(one)) is not None


@local
def test_keys_differ_for_other_computations() -> None:
    pairs = [
        (with_number(2.0), with_number(3.0)),
        (with_number(2), with_number(2.0)),
        (with_array(np.arange(3.0)), with_array(np.arange(1.0, 4.0))),
        (with_array(tf.constant([1.0])), with_array(tf.constant([1.0]))),
        (calls(with_number(2.0)), calls(with_number(3.0))),
        (with_array([1.0]), with_array((1.0,))),
        (calls(with_number(2.0)), with_number(2.0)),
        (partial(recursive, n=2), partial(recursive, n=3)),
        (Dirichlet(1.0).residual, Dirichlet(2.0).residual),
        (Adam(1e-3), Adam(1e-3, beta_1=0.8)),
    ]
    for one, other in pairs:
        assert function_key(one) != function_key(other)


@local
@pytest.mark.parametrize(
    "held", [Model(1.0), [Model(1.0)], {"a": Model(1.0)}, tf.Variable(1.0, trainable=False)]
)
def test_what_may_change_has_no_key(held: Any) -> None:
    assert function_key(lambda u, x: held and u(x)) is None
