"""Loops of Horovod and collectives as users write them, against NumPy on all ranks' data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_two

import sciml_par.horovod.tensorflow as hvd
import sciml_par.horovod.tensorflow.keras as hvd_keras

pytestmark = pytest.mark.long
table = Table()


def data(rank: int, rows: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(100 + rank)
    x = rng.normal(size=(rows, 3)).astype("float32")
    return x, x @ np.array([[1.0], [-2.0], [0.5]], "float32") + rng.normal(size=(rows, 1)).astype(
        "float32"
    )


def descend(w: Any, parts: Any, rate: float, steps: int) -> Any:
    """Return w after gradient descent on the mean of the parts' mean squares."""
    for _ in range(steps):
        gradients = [2 * x.T @ (x @ w - y) / len(x) for x, y in parts]
        w = w - rate * np.mean(gradients, axis=0)
    return w


def everyone(rows: Any = None) -> Any:
    return [data(r, 12 if rows is None else rows(r)) for r in range(hvd.size())]


@table.gives(1e-5, on_two)
def a_tape_with_uneven_rows() -> Any:
    rows = lambda r: 5 + 7 * r
    x, y = data(hvd.rank(), rows(hvd.rank()))
    w = tf.Variable(tf.zeros([3, 1]))
    for _ in range(10):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - y) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        w.assign_sub(0.1 * tape.gradient(loss, [w])[0])
    return w.numpy(), descend(np.zeros((3, 1)), everyone(rows), 0.1, 10)


@table.gives(1e-6, on_two)
def averages_of_every_kind_of_input() -> Any:
    r, mean = hvd.rank(), (hvd.size() - 1) / 2
    return [
        (hvd.allreduce(float(r)).numpy(), mean),
        (hvd.allreduce([r * 1.0, 2.0]).numpy(), np.array([mean, 2.0])),
        (hvd.allreduce(np.full(3, r, "float64")).numpy(), np.full(3, mean)),
        (hvd.allreduce(tf.constant(r, tf.float16)).numpy(), mean),
        (
            hvd.allreduce(tf.constant([r], tf.int64), op=hvd.Sum).numpy(),
            np.array([2 * mean * hvd.size() / 2]),
        ),
        (hvd.allreduce(tf.fill([2, 0], 1.0)).numpy(), np.zeros((2, 0))),
        (hvd.allreduce(tf.constant(r + 1j, tf.complex64)).numpy(), mean + 1j),
        (hvd.allreduce(tf.constant(float(r)), average=False).numpy(), mean * hvd.size()),
    ]


@table.gives(1e-6, on_two)
def a_set_of_one_rank() -> Any:
    alone = hvd.add_process_set([hvd.size() - 1])
    found = 7.0
    if alone.included():
        found = hvd.allreduce(tf.constant(float(hvd.rank())), process_set=alone).numpy()
    hvd.remove_process_set(alone)
    return found, float(hvd.size() - 1) if hvd.rank() == hvd.size() - 1 else 7.0


@table.gives(1e-6, on_two)
def metrics_that_are_averaged() -> Any:
    class Last(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.logs = dict(logs)

    x, y = data(hvd.rank())
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.0), loss="mse")
    last = Last()
    model.fit(
        x,
        y,
        batch_size=12,
        verbose=0,
        callbacks=[hvd_keras.callbacks.MetricAverageCallback(), last],
    )
    return last.logs["loss"], np.mean([np.mean(y**2) for _, y in everyone()])


@table.gives(1e-5, on_two)
def statistics_of_uneven_rows() -> Any:
    x = data(hvd.rank(), 3 + 4 * hvd.rank())[0]
    n = hvd.allreduce(tf.constant(float(len(x))), op=hvd.Sum)
    mean = hvd.allreduce(tf.reduce_sum(x, axis=0), op=hvd.Sum) / n
    square = hvd.allreduce(tf.reduce_sum((x - mean) ** 2, axis=0), op=hvd.Sum) / n
    rows = np.concatenate([x for x, _ in everyone(lambda r: 3 + 4 * r)])
    return [(mean.numpy(), rows.mean(axis=0)), (square.numpy(), rows.var(axis=0))]


@table.gives(0.0, on_two)
def averages_of_bytes() -> Any:
    # The sum of what the ranks have does not fit into a byte; the average does.
    found = hvd.allreduce(tf.constant([200, 100], tf.uint8))
    pair = hvd.grouped_allreduce([tf.constant([-100], tf.int8), tf.constant([2**30, -7])])
    return [
        (found.numpy(), np.array([200, 100])),
        (pair[0].numpy(), np.array([-100])),
        (pair[1].numpy(), np.array([2**30, -7])),
        (float([found.dtype, *(y.dtype for y in pair)] == [tf.uint8, tf.int8, tf.int32]), 1.0),
    ]


@table.gives(1e-6, on_two)
def gradients_through_uneven_rows() -> Any:
    r, p = hvd.rank(), hvd.size()
    x = tf.Variable(tf.fill([r + 1, 1], r + 1.0))
    n, before = p * (p + 1) // 2, r * (r + 1) // 2
    places = np.arange(1.0, n + 1)[:, None]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((r + 1) * places * hvd.allgather(x) ** 2)
    rows = np.concatenate([np.full((s + 1, 1), s + 1.0) for s in range(p)])
    wanted = (p + 1) / 2 * places * 2 * rows  # the ranks' mean, as Horovod has it
    return tape.gradient(loss, x).numpy(), wanted[before : before + r + 1]


@table.gives(1e-5, on_two)
def adam_whose_state_comes_from_one_rank() -> Any:
    w, optimizer = tf.Variable(tf.ones([3, 1])), keras.optimizers.Adam(0.1)
    optimizer.build([w])

    def gradient(at: Any, x: Any, y: Any) -> Any:
        return 2 * x.T @ (x @ at - y) / len(x)

    for _ in range(3 if hvd.rank() == 0 else 0):
        optimizer.apply_gradients([(tf.constant(gradient(w.numpy(), *data(0))), w)])
    hvd.broadcast_variables([w, *optimizer.variables], root_rank=0)
    mean = hvd.allreduce(tf.constant(gradient(w.numpy(), *data(hvd.rank()))))
    optimizer.apply_gradients([(mean, w)])
    wanted, m, v = np.ones((3, 1)), np.zeros((3, 1)), np.zeros((3, 1))
    for k in range(1, 5):
        parts = [data(0)] if k < 4 else everyone()
        g = np.mean([gradient(wanted, *part) for part in parts], axis=0)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        wanted = wanted - 0.1 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-7)
    return w.numpy(), wanted


@table.gives(1e-5, on_two)
def clipping_after_the_average() -> Any:
    x, y = data(hvd.rank())
    w = tf.Variable(tf.zeros([3, 1]))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, global_clipnorm=0.01))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    step = descend(np.zeros((3, 1)), everyone(), 1.0, 1)
    return w.numpy(), 0.01 * step / np.linalg.norm(step)


@table.gives(1e-6, on_two)
def early_stopping_by_an_averaged_metric() -> Any:
    class Score(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["score"] = [1.0, 0.9, 0.95 if hvd.rank() else 0.8, 2.0, 3.0][epoch]

    x, y = data(hvd.rank())
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), loss="mse")
    averaged = hvd_keras.callbacks.MetricAverageCallback()
    stop = keras.callbacks.EarlyStopping("score", mode="min")
    found = model.fit(x, y, epochs=5, verbose=0, callbacks=[Score(), averaged, stop])
    mean = (0.8 + 0.95 * (hvd.size() - 1)) / hvd.size()
    return np.array(found.history["score"]), np.array([1.0, 0.9, mean, 2.0])


table.add(
    Row(
        "a gradient that there is not",
        lambda: hvd.grouped_allreduce([tf.zeros([2]), None]),
        says="allreduce: expected tensors; got None for number 1 of 2",
    ),
    Row(
        "parameters as in pytorch",
        lambda: hvd.broadcast_parameters({}, root_rank=0),
        says="has no attribute 'broadcast_parameters'",
    ),
)

test_programs = table.as_test()
