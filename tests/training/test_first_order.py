"""Our Adam, AdamW, SGD and RMSprop are Keras', for each member by itself."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from small_training import LAYOUT, Trainings, initial, keras_train_all

from sciml_par.errors import InputError
from sciml_par.training import SGD, Adam, AdamW, CosineDecay, RMSprop

pytestmark = pytest.mark.ranks(most=1, reason="gradients come from one rank's numbers")

# Numbers that single precision has exactly: Keras keeps rates, and Adam's β for the correction of
# its moments, in that.
RATE = 2.0**-7
BETAS = {"beta_1": 0.875, "beta_2": 1 - 2.0**-8}
# With a large ε where steps would otherwise jump around the minimum, and rounding grow.
PAIRS: dict[str, tuple[type, dict[str, Any]]] = {
    "Adam": (Adam, {"learning_rate": RATE, **BETAS}),
    "Adam without memory of the mean": (
        Adam,
        {**BETAS, "learning_rate": RATE, "beta_1": 0.0, "epsilon": 0.0625},
    ),
    "AdamW": (AdamW, {"learning_rate": RATE, "weight_decay": 0.25, **BETAS}),
    "SGD": (SGD, {"learning_rate": RATE}),
    "momentum": (SGD, {"learning_rate": RATE, "momentum": 0.875}),
    "Nesterov": (SGD, {"learning_rate": RATE, "momentum": 0.875, "nesterov": True}),
    "RMSprop": (RMSprop, {"learning_rate": 2.0**-11, "epsilon": 1e-3}),
    "RMSprop, all": (
        RMSprop,
        {"learning_rate": 2.0**-11, "rho": 0.8, "momentum": 0.5, "centered": True, "epsilon": 1e-3},
    ),
}
STEPS = 200


def ours() -> dict[str, Any]:
    return {name: kind(**options) for name, (kind, options) in PAIRS.items()}


@pytest.fixture(scope="module")
def trainings() -> Trainings:
    return Trainings(ours(), steps=STEPS)


@pytest.fixture(scope="module")
def alone(trainings: Trainings) -> dict[str, np.ndarray]:
    return trainings.run()


def test_agree_with_keras(alone: dict[str, np.ndarray]) -> None:
    theirs = {
        name: getattr(keras.optimizers, kind.__name__)(**options)
        for name, (kind, options) in PAIRS.items()
    }
    expected = keras_train_all(theirs, steps=STEPS)
    for name in PAIRS:
        np.testing.assert_allclose(
            alone[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=name
        )
        assert np.abs(alone[name] - initial()).max() > 0.05
    different = {np.round(theta, 6).tobytes() for theta in alone.values()}
    assert len(different) == len(PAIRS)


def test_the_defaults_are_those_of_keras() -> None:
    for kind in (Adam, AdamW, SGD, RMSprop):
        theirs = getattr(keras.optimizers, kind.__name__)().get_config()
        for name, value in vars(kind()).items():
            assert value == pytest.approx(theirs[name], rel=1e-7), (kind.__name__, name)


def test_stacked_members_are_as_alone(trainings: Trainings, alone: dict[str, np.ndarray]) -> None:
    stacked = Trainings(ours(), steps=STEPS, members=3).run(factors=[1.0, 0.5, 1.0])
    second = trainings.run(first=1, factors=[0.5])
    for name in PAIRS:
        expected = [*alone[name], *second[name]]
        np.testing.assert_allclose(
            stacked[name][:2], expected, rtol=1e-12, atol=1e-12, err_msg=name
        )
        assert np.abs(second[name] - trainings.run(first=1)[name]).max() > 1e-3, name


def test_centered_rmsprop_stays_finite_where_all_gradients_are_alike() -> None:
    optimizer = RMSprop(rho=0.5, centered=True, epsilon=1e-30)
    theta = tf.zeros([1, 100], tf.float32)
    gradient = tf.reshape(tf.linspace(1.0, 12345.678, 100), [1, 100])
    state = optimizer.start(LAYOUT, theta)
    for number in range(1, 100):
        theta, state = optimizer.update(
            LAYOUT, theta, gradient, state, tf.constant([[1e-3]]), tf.constant(number)
        )
    assert np.isfinite(theta).all()


def test_a_schedule_is_read_at_the_number_of_updates_so_far() -> None:
    """The first update has the initial rate; that after `decay_steps` has none."""
    optimizers = {
        "one": SGD(CosineDecay(RATE, 1)),
        "three": SGD(CosineDecay(RATE, 3)),
        "first": SGD(RATE),
    }
    ends = {steps: Trainings(optimizers, steps=steps).run() for steps in (1, 3, 5)}
    np.testing.assert_array_equal(ends[1]["three"], ends[1]["first"])
    np.testing.assert_array_equal(ends[5]["one"], ends[1]["first"])
    np.testing.assert_allclose(ends[5]["three"], ends[3]["three"], rtol=1e-14)
    assert np.abs(ends[3]["three"] - ends[1]["three"]).max() > 1e-4


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Adam, {"beta_1": 1.0}),
        (Adam, {"beta_2": -0.1}),
        (Adam, {"epsilon": 0.0}),
        (Adam, {"beta_1": "0.9"}),
        (AdamW, {"weight_decay": -1.0}),
        (AdamW, {"beta_1": 1.0}),
        (SGD, {"momentum": 1.0}),
        (SGD, {"nesterov": 1}),
        (RMSprop, {"rho": 1.0}),
        (RMSprop, {"momentum": -1}),
        (RMSprop, {"epsilon": 0}),
        (RMSprop, {"centered": None}),
    ],
)
def test_refuses_bad_numbers(kind: type, options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(InputError, match=f"^{kind.__name__}: expected {name} .*got {value!r}"):
        kind(**options)
