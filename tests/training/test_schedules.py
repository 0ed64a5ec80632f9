"""Learning rates: their values, in compiled functions, and what is refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.training import (
    SGD,
    Adam,
    Constant,
    CosineDecay,
    ExponentialDecay,
    PiecewiseConstantDecay,
    Schedule,
    WarmUp,
)
from sciml_par.training.optimizers.schedules import as_schedule

pytestmark = pytest.mark.ranks(most=1, reason="nothing here knows of ranks")

theirs = keras.optimizers.schedules
STEPS = np.array([0, 1, 5, 9, 10, 11, 19, 20, 21, 40, 1000])

PAIRS = {
    "exponential": (ExponentialDecay(0.1, 10, 0.5), theirs.ExponentialDecay(0.1, 10, 0.5)),
    "staircase": (
        ExponentialDecay(0.1, 10, 0.5, staircase=True),
        theirs.ExponentialDecay(0.1, 10, 0.5, staircase=True),
    ),
    "cosine": (CosineDecay(0.1, 20), theirs.CosineDecay(0.1, 20)),
    "cosine to a tenth": (CosineDecay(0.1, 20, 0.1), theirs.CosineDecay(0.1, 20, 0.1)),
    "piecewise": (
        PiecewiseConstantDecay([10, 20], [0.1, 0.05, 0.01]),
        theirs.PiecewiseConstantDecay([10, 20], [0.1, 0.05, 0.01]),
    ),
    "rise": (
        WarmUp(CosineDecay(0.1, 20), 10, start=0.02),
        theirs.CosineDecay(0.02, 20, warmup_target=0.1, warmup_steps=10),
    ),
    "constant": (0.1, theirs.PiecewiseConstantDecay([10], [0.1, 0.1])),
}


def rates(schedule: Any, dtype: str = "float64") -> np.ndarray:
    """The rates at `STEPS`, computed in one compiled loop over an integer tensor."""
    made = as_schedule(schedule)

    @tf.function(jit_compile=True, autograph=False)
    def run(steps: Any) -> Any:
        return tf.map_fn(lambda step: made(step, tf.as_dtype(dtype)), steps, tf.as_dtype(dtype))

    found = run(tf.constant(STEPS, tf.int32))
    assert found.dtype == dtype and found.shape == STEPS.shape
    return found.numpy()


@pytest.mark.parametrize("name", PAIRS)
def test_has_the_values_of_that_of_keras(name: str) -> None:
    ours, keras_own = PAIRS[name]
    expected = [float(keras_own(tf.constant(step))) for step in STEPS]
    # Keras computes in single precision.
    np.testing.assert_allclose(rates(ours), expected, rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(rates(ours, "float32"), expected, rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(rates(keras_own), expected, rtol=1e-6, atol=1e-9)


def test_computes_in_double_precision() -> None:
    t = STEPS / 20
    np.testing.assert_allclose(rates(ExponentialDecay(0.3, 20, 0.7)), 0.3 * 0.7**t, rtol=1e-14)
    cosine = 0.3 * (0.2 + 0.8 * (1 + np.cos(np.pi * np.minimum(t, 1))) / 2)
    np.testing.assert_allclose(rates(CosineDecay(0.3, 20, 0.2)), cosine, rtol=1e-14)


def test_rises_from_the_rate_of_one_rank_to_that_of_all() -> None:
    schedule = WarmUp(ExponentialDecay(0.1, 10, 0.5), 10, scale_by_ranks=True)
    with pytest.raises(InputError, match=r"with_ranks\(P\)"):
        rates(schedule)
    factor = 1 + 3 * np.minimum(STEPS / 10, 1)
    expected = factor * 0.1 * 0.5 ** (np.maximum(STEPS - 10, 0) / 10)
    np.testing.assert_allclose(rates(schedule.with_ranks(4)), expected, rtol=1e-14)
    alone = 0.1 * 0.5 ** (np.maximum(STEPS - 10, 0) / 10)
    np.testing.assert_allclose(rates(schedule.with_ranks(1)), alone, rtol=1e-14)


def test_an_optimizer_tells_its_schedule_the_number_of_ranks() -> None:
    told = Adam(WarmUp(0.1, 10, scale_by_ranks=True)).with_ranks(8).learning_rate
    assert rates(told)[-1] == pytest.approx(0.8)
    nested = Adam(WarmUp(WarmUp(0.1, 5, scale_by_ranks=True), 5)).with_ranks(8).learning_rate
    assert rates(nested)[-1] == pytest.approx(0.8)
    assert rates(Adam(0.1).with_ranks(8).learning_rate)[-1] == pytest.approx(0.1)


def test_keys_and_descriptions_tell_schedules_apart_by_their_values() -> None:
    def pair(schedule: Any) -> tuple[Any, dict[str, str]]:
        optimizer = Adam(schedule)
        return optimizer.key, optimizer.describe()

    made = [
        lambda: 0.1,
        lambda: 0.2,
        lambda: CosineDecay(0.1, 20),
        lambda: CosineDecay(0.1, 21),
        lambda: WarmUp(CosineDecay(0.1, 20), 3),
        lambda: PiecewiseConstantDecay([3], [0.1, 0.2]),
        lambda: theirs.CosineDecay(0.1, 20),
        lambda: theirs.CosineDecay(0.1, 21),
        lambda: theirs.PiecewiseConstantDecay([3], [0.1, 0.2]),
    ]
    for i, first in enumerate(made):
        for j, second in enumerate(made):
            (key, text), (other_key, other_text) = pair(first()), pair(second())
            assert (key == other_key) == (text == other_text) == (i == j)
            assert i != j or hash(key) == hash(other_key)
    assert Adam(0.1).key != SGD(0.1).key


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("0.001", "number > 0 or a schedule.*'0.001'"),
        (-1e-3, "> 0"),
        (0.0, "> 0"),
        (float("nan"), "> 0"),
        (float("inf"), "> 0"),
        (True, "got True"),
        (None, "got None"),
        (CosineDecay, r"the class CosineDecay, not an object: CosineDecay\(…\)"),
        (theirs.CosineDecay, r"the class CosineDecay, not an object"),
        ([1e-3, 1e-4], "PiecewiseConstantDecay"),
        (lambda step: 1e-3, "function.*LearningRateSchedule"),
    ],
)
def test_refuses_as_learning_rate(rate: Any, said: str) -> None:
    for make in (Adam, SGD, lambda rate: WarmUp(rate, 10)):
        with pytest.raises(InputError, match=said) as caught:
            make(rate)
        assert "learning_rate" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Constant(-1.0), "Constant.*value"),
        (lambda: ExponentialDecay(0.1, 0, 0.5), "decay_steps.*at least 1, got 0"),
        (lambda: ExponentialDecay(0.1, 10.5, 0.5), "decay_steps.*got 10.5"),
        (lambda: ExponentialDecay("0.1", 10, 0.5), "initial_learning_rate.*'0.1'"),
        (lambda: ExponentialDecay(0.1, 10, -0.5), "decay_rate.*-0.5"),
        (lambda: ExponentialDecay(0.1, 10, 0.5, staircase=3), "staircase.*True or False"),
        (lambda: CosineDecay(0.1, 10, alpha=1.5), r"alpha.*\[0, 1\]"),
        (lambda: PiecewiseConstantDecay([10], [0.1]), "one value more than boundaries, 2; got 1"),
        (lambda: PiecewiseConstantDecay([10, 5], [1, 1, 1]), "rising"),
        (lambda: PiecewiseConstantDecay([], [1]), "rising"),
        (lambda: PiecewiseConstantDecay(10, [1, 1]), "boundaries to be a list; got 10"),
        (lambda: PiecewiseConstantDecay([10], [1, -1]), "values.*≥ 0; got -1"),
        (lambda: WarmUp(0.1, 0), "steps"),
        (lambda: WarmUp(0.1, 10, start=-1), "start"),
        (lambda: WarmUp(0.1, 10, start=0.01, scale_by_ranks=True), "leave out start"),
    ],
)
def test_refuses(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


def test_a_schedule_of_ones_own_is_a_dataclass() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class InverseTime(Schedule):
        rate: float
        steps: int

        def __call__(self, step: Any, dtype: Any) -> Any:
            return self.rate / (1 + tf.cast(step, dtype) / self.steps)

    np.testing.assert_allclose(rates(InverseTime(0.1, 10)), 0.1 / (1 + STEPS / 10), rtol=1e-14)
    assert Adam(InverseTime(0.1, 10)).key == Adam(InverseTime(0.1, 10)).key
    assert Adam(InverseTime(0.1, 10)).key != Adam(InverseTime(0.1, 11)).key
