"""The line search ends where the strong Wolfe conditions hold, or says that it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.training.optimizers.quasi_newton.line_search import Found, strong_wolfe

pytestmark = pytest.mark.ranks(most=1, reason="its functions are the same on all ranks")

Tensor = Any


def yanai(beta_1: float, beta_2: float) -> Callable[[Tensor], Tensor]:
    def gamma(beta: float) -> float:
        return float(np.sqrt(1 + beta**2) - beta)

    return lambda a: (
        gamma(beta_1) * tf.sqrt((1 - a) ** 2 + beta_2**2)
        + gamma(beta_2) * tf.sqrt(a**2 + beta_1**2)
    )


def wavy(a: Tensor, beta: float = 0.01, waves: float = 39.0) -> Tensor:
    bowl = (a - 1) ** 2 / (2 * beta) + beta / 2
    base = tf.where(a <= 1 - beta, 1 - a, tf.where(a >= 1 + beta, a - 1, bowl))
    return base + 2 * (1 - beta) / (waves * np.pi) * tf.sin(waves * np.pi / 2 * a)


# Moré and Thuente (1994), section 5: the functions, and μ and η of their tables 1–6.
MORE_THUENTE: list[tuple[Callable[[Tensor], Tensor], float, float]] = [
    (lambda a: -a / (a**2 + 2), 0.001, 0.1),
    (lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4, 0.1, 0.1),
    (wavy, 0.1, 0.1),
    (yanai(0.001, 0.001), 0.001, 0.001),
    (yanai(0.01, 0.001), 0.001, 0.001),
    (yanai(0.001, 0.01), 0.001, 0.001),
]
STARTS = (1e-3, 1e-1, 1e1, 1e3)
NOT_A_NUMBER, INFINITE = float("nan"), float("inf")
# Beyond a wall there is no finite number; below zero, and where nothing falls, there is no step.
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "no number": lambda a: tf.where(a < 1.5, (a - 1) ** 2, NOT_A_NUMBER),
    "infinite": lambda a: tf.where(a < 1.5, (a - 1) ** 2, INFINITE),
    "near the wall": lambda a: -tf.math.log(1 - a) - 50 * a,
    "rising": lambda a: a + 1,
    "constant": lambda a: 0 * a + 2,
    "no number at all": lambda a: a * NOT_A_NUMBER,
    "kink": lambda a: tf.abs(a - 1) - 0.5 * a,
    "endless": lambda a: -a,
}
CASES = [(f, c1, c2, s) for f, c1, c2 in MORE_THUENTE for s in STARTS]
CASES += [(f, 1e-4, 0.1, 100.0) for f in OTHERS.values()]
FIRST_OTHER = len(MORE_THUENTE) * len(STARTS)


def values(a: Tensor) -> tuple[Tensor, Tensor]:
    """φ and φ' of all cases, each at its own length: [M] -> [M], [M]."""
    found = []
    for j, (function, *_) in enumerate(CASES):
        with tf.GradientTape() as tape:
            length = a[j]
            tape.watch(length)
            value = function(length)
        found.append((value, tape.gradient(value, length)))
    return tuple(tf.stack(each) for each in zip(*found, strict=True))


@tf.function(jit_compile=True, autograph=False)
def search(running: Tensor, most: Tensor) -> Found:
    """All cases as members with one parameter, α itself; the terms of the loss are two halves."""

    def evaluate(parameters: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = values(parameters[:, 0])
        return tf.stack([0.5 * value, 0.5 * value], axis=1), slope[:, None]

    zero = tf.zeros([len(CASES), 1], tf.float64)
    columns = [tf.constant([case[k] for case in CASES], tf.float64) for k in (1, 2, 3)]
    losses, gradient = evaluate(zero)
    return strong_wolfe(
        evaluate,
        zero,
        tf.ones_like(zero),
        losses,
        gradient,
        columns[2],
        running=running,
        sufficient_decrease=columns[0],
        curvature=columns[1],
        most=most,
    )


ALL = np.ones(len(CASES), bool)


def searched(running: np.ndarray = ALL, most: int = 25) -> Found:
    found = search(tf.constant(running), tf.constant(most))
    return Found(*(each.numpy() for each in found))


@pytest.fixture(scope="module")
def found() -> Found:
    return searched()


def at(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value, slope = values(tf.constant(lengths))
    return value.numpy(), slope.numpy()


def index_of(name: str) -> int:
    return FIRST_OTHER + list(OTHERS).index(name)


def test_the_conditions_hold_on_hard_functions(found: Found) -> None:
    (value_0, slope_0), (value, slope) = at(np.zeros(len(CASES))), at(found.length)
    for j, (_, c1, c2, first) in enumerate(CASES[:FIRST_OTHER]):
        where = f"function {1 + j // len(STARTS)} from {first}"
        assert found.wolfe[j], where
        assert value[j] <= value_0[j] + c1 * found.length[j] * slope_0[j], where
        assert abs(slope[j]) <= -c2 * slope_0[j], where
    assert 10 < found.evaluations <= 25


def test_nothing_is_found_where_nothing_falls(found: Found) -> None:
    for name in ("rising", "constant", "no number at all"):
        j = index_of(name)
        assert not found.wolfe[j] and found.length[j] == 0, name
    np.testing.assert_array_equal(found.losses[index_of("constant")], [1.0, 1.0])


def test_without_a_point_that_satisfies_the_conditions_the_best_one_counts(found: Found) -> None:
    kink, endless = index_of("kink"), index_of("endless")
    assert not found.wolfe[kink] and found.length[kink] == pytest.approx(1.0, abs=1e-2)
    assert not found.wolfe[endless] and found.length[endless] > 1e10


def test_evaluations_are_limited() -> None:
    few = searched(most=2)
    assert few.evaluations == 2
    value, value_0 = at(few.length)[0], at(np.zeros(len(CASES)))[0]
    moved = few.length > 0
    assert 0 < moved.sum() < len(CASES) and (value[moved] < value_0[moved]).all()
