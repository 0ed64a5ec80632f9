"""Keras' optimizers in the compiled loop are what they are in Keras, for each member by itself."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from small_training import SmallObjective, Trainings, initial, keras_train_all

from sciml_par.errors import InputError
from sciml_par.training.optimizers.optimizer import At
from sciml_par.training.optimizers.phases import as_optimizer

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="gradients come from one rank's numbers"),
]

k, s = keras.optimizers, keras.optimizers.schedules
STEPS = 40


def excluding(optimizer: Any, *names: str) -> Any:
    optimizer.exclude_from_weight_decay(var_names=list(names))
    return optimizer


def changed(optimizer: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(optimizer, name, value)
    return optimizer


def cases() -> dict[str, Any]:
    """Each optimizer of Keras, and each thing that it does to updates, at least once."""
    return {
        "Adadelta": k.Adadelta(0.5, clipvalue=0.02),
        "Adafactor": k.Adafactor(s.PolynomialDecay(0.05, 15, cycle=True)),
        "Adagrad": k.Adagrad(0.05, weight_decay=0.1, use_ema=True, ema_overwrite_frequency=5),
        "Adam": k.Adam(0.02, amsgrad=True, global_clipnorm=0.05),
        "AdamW": excluding(k.AdamW(s.ExponentialDecay(0.05, 10, 0.9), weight_decay=0.1), "bias"),
        "Adamax": k.Adamax(s.PiecewiseConstantDecay([10, 20], [0.1, 0.05, 0.01]), clipnorm=0.05),
        "Ftrl": changed(k.Ftrl(0.5), learning_rate=0.05, beta=0.1),
        "Lamb": k.Lamb(s.CosineDecayRestarts(0.05, 10), gradient_accumulation_steps=2),
        "Lion": excluding(k.Lion(0.02, weight_decay=0.1), "output", "hidden/bias:0"),
        "Nadam": k.Nadam(
            0.02,
            gradient_accumulation_steps=3,
            use_ema=True,
            ema_overwrite_frequency=2,
            clipnorm=0.1,
        ),
        "Nadam, plain": k.Nadam(0.02, loss_scale_factor=None),
        "RMSprop": k.RMSprop(
            s.CosineDecay(0.0, 30, warmup_target=0.01, warmup_steps=10), momentum=0.5, centered=True
        ),
        "SGD": k.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.1, use_ema=True),
    }


@pytest.fixture(scope="module")
def trainings() -> Trainings:
    return Trainings(converted(cases()), steps=STEPS)


@pytest.fixture(scope="module")
def alone(trainings: Trainings) -> dict[str, np.ndarray]:
    return trainings.run()


def converted(optimizers: dict[str, Any]) -> dict[str, Any]:
    return {name: as_optimizer(optimizer) for name, optimizer in optimizers.items()}


def all_of_keras() -> set[str]:
    kinds = {name: getattr(k, name) for name in dir(k)}
    return {
        name
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, k.Optimizer) and kind is not k.Optimizer
    }


@pytest.mark.long_after(1)
def test_train_as_in_keras(alone: dict[str, np.ndarray]) -> None:
    expected = keras_train_all(cases(), steps=STEPS)
    for name in expected:
        np.testing.assert_allclose(
            alone[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=name
        )
        assert np.abs(alone[name] - initial()).max() > 0.02, name
    tested = {name.partition(",")[0] for name in expected}
    others = {"Muon", "ScheduleFreeAdamW", "LossScaleOptimizer", "MultiOptimizer"}
    assert tested | others == all_of_keras()


@pytest.mark.long
def test_stacked_members_are_as_alone(trainings: Trainings, alone: dict[str, np.ndarray]) -> None:
    """Also with another rate: clipping, norms and averages are those of each member."""
    stacked = Trainings(converted(cases()), steps=STEPS, members=3).run(factors=[1.0, 0.5, 1.0])
    second = trainings.run(first=1, factors=[0.5])
    for name in stacked:
        expected = [*alone[name], *second[name]]
        np.testing.assert_allclose(stacked[name][:2], expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_factor_is_as_a_rate_of_ones_own() -> None:
    made = {"whole": k.Lamb(0.02), "half": k.Lamb(0.01), "adam": k.Adam(0.01)}
    at_half = {"whole": "half", "adam whole": "adam"}
    whole = Trainings(converted({**made, "adam whole": k.Adam(0.02)}), steps=10)
    halved, given = whole.run(factors=[0.5]), whole.run()
    for name, expected in at_half.items():
        np.testing.assert_allclose(halved[name], given[expected], rtol=1e-14)


@pytest.mark.long
def test_muon_trains_as_in_keras_where_keras_can() -> None:
    """In Keras its rates and parameters are of one type, or it fails."""
    with pytest.raises(InputError, match="Muon cannot update parameters of float64"):
        Trainings(converted({"Muon": k.Muon(0.02)}), steps=2).run()

    in_double = Trainings(converted({"Muon": k.Muon(0.02, rms_rate=None)}), steps=2).run()["Muon"]
    assert np.abs(in_double - initial()).max() > 0.01

    def made() -> dict[str, Any]:
        muon = k.Muon(0.02, weight_decay=0.1, adam_weight_decay=0.05, exclude_layers=["output"])
        return {"Muon": k.Muon(0.02), "excluding": excluding(muon, "bias")}

    keras.config.set_floatx("float64")
    try:
        optimizers = converted(made())
        expected = keras_train_all(made(), steps=STEPS)
        found = Trainings(optimizers, steps=STEPS).run()
        stacked = Trainings(optimizers, steps=STEPS, members=2).run()
    finally:
        keras.config.set_floatx("float32")
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stacked[name][:1], expected[name], rtol=1e-9, atol=1e-9)
    assert np.abs(found["Muon"] - found["excluding"]).max() > 1e-2


def test_schedule_free_adamw_is_what_it_is_meant_to_be() -> None:
    """Not as in Keras on TensorFlow, which takes the new z for the old one, a variable."""
    rate, b1, b2, eps = 2.0**-6, 0.875, 0.9375, 2.0**-10
    free = k.ScheduleFreeAdamW(rate, beta_1=b1, beta_2=b2, epsilon=eps, warmup_steps=0)
    found = Trainings(converted({"free": free}), steps=STEPS, members=2).run()["free"]
    objective = SmallObjective()
    x = y = z = initial(2).numpy()
    v = np.zeros_like(z)
    for t in range(1, STEPS + 1):
        gradient = objective.value_and_gradient(tf.constant(y), ())[1].numpy()
        v = b2 * v + (1 - b2) * gradient**2
        z = z - rate * gradient / (np.sqrt(v / (1 - b2**t)) + eps)
        x = (1 - 1 / t) * x + z / t
        y = (1 - b1) * z + b1 * x
    np.testing.assert_allclose(found, y, rtol=1e-10, atol=1e-10)


def test_averages_of_weights_are_what_a_phase_ends_with() -> None:
    objective, theta = SmallObjective(), initial(2)
    for optimizer in (k.SGD(0.1, use_ema=True), k.SGD(0.1, use_ema=True, clipnorm=1.0)):
        ours = as_optimizer(optimizer)
        state = ours.init(objective, theta)
        after = theta
        for number in (1, 2):
            before, at = after, At(tf.constant(number), tf.ones([2, 1], tf.float64))
            after, state, _ = ours.step(objective, after, state, (), at)
        end = ours.finish(objective, after, state)
        np.testing.assert_allclose(end, 0.99 * before + 0.01 * after, rtol=1e-7)
        assert all(tensor.shape[0] == 2 for tensor in state)
    plain = as_optimizer(k.SGD(0.1))
    np.testing.assert_array_equal(
        plain.finish(objective, after, plain.init(objective, theta)), after
    )


def test_leaves_the_optimizer_as_it_was() -> None:
    """One that has trained a model of other shapes: its variables stay, and it begins anew."""
    used = k.Adam(0.02)
    variable = keras.Variable(np.ones(5), dtype="float32")
    for _ in range(3):
        used.apply([tf.ones(5)], [variable])
    before = [np.array(each) for each in used.variables]
    names = set(vars(used))
    found = Trainings(converted({"used": used, "new": k.Adam(0.02)}), steps=5).run()
    np.testing.assert_array_equal(found["used"], found["new"])
    for value, each in zip(before, used.variables, strict=True):
        np.testing.assert_array_equal(value, np.array(each))
    assert set(vars(used)) == names and int(used.iterations) == 3
    used.apply([tf.ones(5)], [variable])


@keras.saving.register_keras_serializable(package="tests")
class Scaled(k.SGD):
    """Whose get_config forgets one of its arguments."""

    def __init__(self, learning_rate: float = 0.1, gain: float = 1.0, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.gain = gain

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient * self.gain, variable, learning_rate)


class Halving(s.LearningRateSchedule):
    """Which Keras could not save."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, step: Any) -> Any:
        return self.rate * tf.pow(0.5, tf.cast(step, tf.float32))


def test_takes_optimizers_and_schedules_of_the_users_own() -> None:
    optimizers = {
        "gain": Scaled(2.0**-4, gain=0.5),
        "half": k.SGD(2.0**-5),
        "halving": k.SGD(Halving(2.0**-4)),
        "decay": k.SGD(s.ExponentialDecay(2.0**-4, 1, 0.5)),
    }
    found = Trainings(converted(optimizers), steps=4, members=2).run()
    np.testing.assert_allclose(found["gain"], found["half"], rtol=1e-14)
    np.testing.assert_allclose(found["halving"], found["decay"], rtol=1e-14)


def test_keys_and_descriptions_tell_optimizers_apart_by_their_values() -> None:
    made = [
        k.Adam,
        lambda: k.Adam(0.01),
        lambda: changed(k.Adam(), learning_rate=0.02),
        lambda: k.AdamW(weight_decay=0.1),
        lambda: excluding(k.AdamW(weight_decay=0.1), "bias", "gamma", "beta"),
        lambda: k.Adam(s.CosineDecay(0.1, 10)),
        lambda: k.Adam(s.CosineDecay(0.1, 11)),
        lambda: k.Adam(Halving(0.1)),
        lambda: k.Adam(Halving(0.2)),
        lambda: Scaled(gain=1.0),
        lambda: Scaled(gain=2.0),
    ]
    for i, first in enumerate(made):
        for j, second in enumerate(made):
            a, b = as_optimizer(first()), as_optimizer(second())
            assert (a.key == b.key) == (a.describe() == b.describe()) == (i == j)
            assert i != j or hash(a.key) == hash(b.key)


class Hidden(k.Optimizer):
    """Keeps its state in a variable of TensorFlow, of which Keras knows nothing."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.sums = [tf.Variable(tf.zeros(v.shape, v.dtype)) for v in variables]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        hidden = self.sums[self._get_variable_index(variable)]
        hidden.assign_add(gradient)
        self.assign_sub(variable, hidden)


class Adaptive(k.SGD):
    """Changes its own learning rate."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate)
        self._learning_rate.assign(self._learning_rate * 0.5)


class Anew(k.SGD):
    """Cannot be made of its configuration."""

    def __init__(self, needed: Any, **options: Any) -> None:
        super().__init__(**options)


@pytest.mark.parametrize(("kind", "members"), [(Hidden, 1), (Adaptive, 2)])
def test_refuses_what_keeps_its_state_elsewhere(kind: Any, members: int) -> None:
    trainings = Trainings(converted({"it": kind(learning_rate=0.1)}), steps=2, members=members)
    with pytest.raises(InputError, match=f"{kind.__name__} reads or changes a variable"):
        trainings.run()


def test_refuses_what_cannot_be_made_anew() -> None:
    with pytest.raises(InputError, match="Anew cannot be made again.*get_config with all"):
        as_optimizer(Anew(1))
