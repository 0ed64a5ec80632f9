"""The callbacks that set the learning rate, in compiled and eager training."""

from __future__ import annotations

import copy

import keras
import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.keras import callbacks as hvd
from sciml_par.horovod.tensorflow.keras.learning_rate import VariableMomentum

LOCAL = pytest.mark.skipif(sp.size() > 1, reason="concerns each rank separately")

STEPS = 3
X = np.array([[1.0], [0.5], [2.0]], "float32")
"""An epoch: a point a step, whose target is 1."""


class Recorder(keras.callbacks.Callback):
    """The learning rate of each step."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


def model_of(optimizer, **options):
    """u = w x, from w = 0."""
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([1]), layer])
    model.compile(optimizer, loss="mse", **(options or {"run_eagerly": True}))
    return model


def train(model, *callbacks, epochs):
    data = {"x": X, "y": np.ones_like(X), "batch_size": 1, "shuffle": False, "verbose": 0}
    return model.fit(**data, epochs=epochs, callbacks=list(callbacks))


def weight(model):
    return float(model.get_weights()[0].item())


def by_hand(rates, momenta):
    """w after SGD with these learning rates and momenta."""
    w = v = 0.0
    for i, (rate, momentum) in enumerate(zip(rates, momenta, strict=True)):
        x = float(X[i % STEPS, 0])
        v = momentum * v - rate * 2 * (w * x - 1) * x
        w += v
    return w


@LOCAL
def test_a_schedule_corrects_the_momentum_of_the_steps_that_change_the_rate():
    model = model_of(keras.optimizers.SGD(0.1, momentum=0.5), jit_compile=False)
    train(model, epochs=1)  # traces a step that has the momentum as a number
    recorder = Recorder()
    rise = hvd.LearningRateScheduleCallback(
        0.1, lambda epoch: 1 + epoch, staircase=False, end_epoch=1
    )
    drop = hvd.LearningRateScheduleCallback(0.1, lambda epoch: 0.2, start_epoch=1)
    history = train(model, rise, drop, recorder, epochs=2)
    train(model, epochs=1)

    rates = [0.1, 0.1 * 4 / 3, 0.1 * 5 / 3, 0.02, 0.02, 0.02]
    assert recorder.rates == pytest.approx(rates, rel=1e-6)
    assert history.history["lr"] == pytest.approx([rates[2], rates[3]])
    rates = [0.1] * 3 + rates + [0.02] * 3
    ratios = np.divide(rates[1:], rates[:-1])
    momenta = [0.5, *(0.5 * ratios)]
    assert weight(model) == pytest.approx(by_hand(rates, momenta), rel=1e-5)
    assert by_hand(rates, [0.5] * len(rates)) != pytest.approx(weight(model), rel=1e-3)


@LOCAL
def test_without_correction_the_momentum_stays():
    model = model_of(keras.optimizers.SGD(0.1, momentum=0.5))
    steps = hvd.LearningRateScheduleCallback(0.1, 0.5, momentum_correction=False)
    train(model, steps, epochs=2)
    assert weight(model) == pytest.approx(by_hand([0.1] * 3 + [0.05] * 3, [0.5] * 6), rel=1e-5)
    assert type(model.optimizer.momentum) is float


@LOCAL
def test_a_constant_is_an_exponential_decay_from_its_start():
    model, recorder = model_of(keras.optimizers.Adam(0.1)), Recorder()
    decay = hvd.LearningRateScheduleCallback(0.3, 0.5, start_epoch=1, end_epoch=3)
    train(model, decay, recorder, epochs=4)
    assert recorder.rates[::STEPS] == pytest.approx([0.1, 0.3, 0.15, 0.15])


@pytest.mark.skipif(sp.size() > 2, reason="the same on two ranks")
def test_the_warm_up_ends_at_the_scaled_rate(capsys):
    ranks, epochs = sp.size(), 2
    model, recorder = model_of(keras.optimizers.Adam(0.1 * ranks)), Recorder()
    warm_up = hvd.LearningRateWarmupCallback(0.1 * ranks, warmup_epochs=epochs, verbose=1)
    train(model, warm_up, recorder, epochs=3)
    steps = np.minimum(np.arange(1, 3 * STEPS + 1), epochs * STEPS)
    expected = 0.1 * (1 + steps / STEPS * (ranks - 1) / epochs)
    np.testing.assert_allclose(recorder.rates, expected, 1e-6)
    printed = capsys.readouterr().out
    assert ("Epoch 2: the warm-up ends" in printed) == (sp.rank() == 0)


@LOCAL
def test_a_momentum_that_lives_is_a_number_to_keras():
    momentum = VariableMomentum(0.9)
    momentum.multiply(2.0)
    optimizer = keras.optimizers.SGD(0.1, momentum=momentum)
    assert float(keras.ops.cast(optimizer.momentum, "float64")) == 1.8
    twin = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert twin.momentum == 0.9
    assert type(copy.deepcopy(momentum)) is float


@LOCAL
def test_an_optimizer_that_cannot_be_scheduled():
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    callback = hvd.LearningRateScheduleCallback(0.1, 0.5)
    with pytest.raises(InputError, match="schedule or a function"):
        train(model_of(keras.optimizers.SGD(decay)), callback, epochs=1)
    with pytest.raises(InputError, match="momentum_correction=False"):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
        train(model_of(optimizer, steps_per_execution=3), callback, epochs=1)
    with pytest.raises(InputError, match="initial_lr"):
        hvd.LearningRateScheduleCallback(None, 0.5)
    warm_up = hvd.LearningRateWarmupCallback(0.1)
    warm_up.set_model(model_of(keras.optimizers.SGD(0.1)))
    with pytest.raises(InputError, match="steps_per_epoch"):
        warm_up.on_train_begin()
