"""Programs whose ranks rightly differ in something: the comparison of ranks lets them train."""

from __future__ import annotations

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
import sciml_par.horovod.tensorflow.keras as hvd_keras
from sciml_par.parallel.gradients.replicas import INTERVAL

pytestmark = pytest.mark.ranks(least=2, reason="one rank has no others to differ from")

BEYOND = INTERVAL + 2
"""Reductions, among them those with a comparison."""


def network(*sizes, outputs=1):
    hidden = [keras.layers.Dense(n, "tanh") for n in sizes[1:]]
    return keras.Sequential([keras.Input([sizes[0]]), *hidden, keras.layers.Dense(outputs)])


def rows(n, width, seed=0):
    return np.random.default_rng(100 * seed + hvd.rank()).normal(size=(n, width)).astype("float32")


def check_equal(variables, process_set=hvd.global_process_set):
    """Check that the ranks have the same variables (collective)."""
    root = process_set.ranks[0] if process_set.ranks else 0
    for v in variables:
        root_value = hvd.broadcast(tf.identity(v), root, process_set=process_set)
        np.testing.assert_allclose(v, root_value, rtol=1e-5, atol=1e-6)


class Gan(keras.Model):
    """Two models, two optimizers, two tapes, and several updates of the critic in a step."""

    def __init__(self, critics):
        super().__init__()
        keras.utils.set_random_seed(hvd.rank())  # other weights, noise and dropout on each rank
        self.critics, self.noise = critics, keras.random.SeedGenerator(hvd.rank())
        self.generator, self.critic = network(2, 4, outputs=3), network(3, 4)

    def compile(self, d_optimizer, g_optimizer, **options):
        super().compile(**options)
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    def train_step(self, data):
        z = keras.random.normal([tf.shape(data)[0], 2], seed=self.noise)
        for _ in range(self.critics):
            with tf.GradientTape() as tape:
                fake = self.critic(self.generator(z))
                loss = tf.reduce_mean(fake) - tf.reduce_mean(self.critic(data))
            variables = self.critic.trainable_variables
            tape = hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, variables)
            self.d_optimizer.apply_gradients(zip(gradients, variables, strict=True))
            for v in variables:
                v.assign(tf.clip_by_value(v, -0.1, 0.1))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.critic(self.generator(z)))
        variables = self.generator.trainable_variables
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        self.g_optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


@pytest.mark.parametrize("jit_compile", (False, pytest.param(True, marks=pytest.mark.long)))
def test_a_gan_in_fit(jit_compile):
    gan = Gan(critics=2)
    gan.compile(
        keras.optimizers.RMSprop(1e-3), keras.optimizers.Adam(1e-3), jit_compile=jit_compile
    )
    begin = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
    gan.fit(rows(4 * BEYOND, 3), batch_size=4, verbose=0, callbacks=begin)
    check_equal(gan.generator.weights + gan.critic.weights)


def test_a_gan_whose_loop_broadcasts_after_the_first_step():
    gan = Gan(critics=3)
    gan.compile(keras.optimizers.RMSprop(1e-3), keras.optimizers.Adam(1e-3))
    step = tf.function(gan.train_step)
    for batch in range(BEYOND):
        step(tf.constant(rows(4, 3, batch)))
        if batch == 0:
            hvd.broadcast_variables(gan.generator.weights + gan.critic.weights, root_rank=0)
            for each in (gan.d_optimizer, gan.g_optimizer):
                hvd.broadcast_variables(each.variables, root_rank=0)
    check_equal(gan.generator.weights + gan.critic.weights)


def train(model, optimizer, *, by_tape=False, steps=BEYOND, width=3, **sets):
    """Train in a loop of one's own, on data that differ from rank to rank."""

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - tf.reduce_sum(x, axis=1, keepdims=True)) ** 2)
        if by_tape:
            tape = hvd.DistributedGradientTape(tape, **sets)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for n in range(steps):
        step(tf.constant(rows(4, width, n)))


@pytest.mark.parametrize(("others", "by_tape"), (("idle", True), ("train", False)))
def test_process_sets(others, by_tape):
    """The first ranks train one model; the last trains another with other settings, or nothing."""
    last = hvd.size() - 1
    sets = [hvd.add_process_set(list(range(last))), hvd.add_process_set([last])]
    role = hvd.rank() == last
    if not role or others == "train":
        keras.utils.set_random_seed(role)
        model = network(3 + role, 4)
        plain = keras.optimizers.Adam(1e-3) if role else keras.optimizers.SGD(0.01, clipnorm=1.0)
        mine = sets[role]
        optimizer = plain if by_tape else hvd.DistributedOptimizer(plain, process_set=mine)
        train(
            model,
            optimizer,
            by_tape=by_tape,
            steps=BEYOND + 10 * role,
            width=3 + role,
            **({"process_set": mine} if by_tape else {}),
        )
        check_equal(model.weights, mine)
    hvd.barrier()
    # Afterwards all ranks train one model together.
    keras.utils.set_random_seed(0)
    together = network(3, 4)
    train(together, hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), steps=9)
    check_equal(together.weights)
    for each in sets:
        hvd.remove_process_set(each)


OPTIMIZERS = {
    "adasum": {"op": hvd.Adasum},
    "averaged passes": {"backward_passes_per_step": 2, "average_aggregated_gradients": True},
    "fp16": {"compression": hvd.Compression.fp16},
}


@pytest.mark.parametrize("options", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_options_of_the_optimizer(options):
    if options.get("op") is hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum is for a power of two of ranks")
    keras.utils.set_random_seed(0)
    model = network(3, 4)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.5), **options)
    train(model, optimizer, steps=BEYOND * options.get("backward_passes_per_step", 1))
    check_equal(model.weights)


def test_heads_one_after_the_other_on_one_body():
    """Memory that one rank has freed serves its next head, and looks like the last one."""
    keras.utils.set_random_seed(0)
    body, heads = keras.Variable(tf.ones([3, 4])), []
    for fold in range(12):
        head = keras.Variable(tf.ones([4, 1]))
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1e-3 * (fold + 1)))
        for n in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(rows(4, 3, n) @ body.value @ head.value)
            optimizer.apply(tape.gradient(loss, [body.value, head.value]), [body, head])
        check_equal([body, head])
        if hvd.rank() == 0:
            heads.append(head)
        del head, loss, optimizer, tape
        gc.collect()


def test_callbacks_serve_two_models():
    begin = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
    for fold in range(2):
        keras.utils.set_random_seed(hvd.rank())
        model = network(3, 4)
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 + fold)), loss="mse")
        model.fit(rows(40, 3), rows(40, 1), batch_size=4, verbose=0, callbacks=begin)
        check_equal(model.weights)


@pytest.mark.parametrize("how", ("fit", "tape"))
def test_mixed_precision(how):
    """Rank 1's gradients overflow in the first steps, and all ranks skip them."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        keras.utils.set_random_seed(0)
        model = network(3, 4)
    finally:
        keras.config.set_dtype_policy("float32")
    x = rows(4 * BEYOND, 3)
    if hvd.rank() == 1:
        x[:12] *= 1e4
    y = x.sum(axis=1, keepdims=True)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3), 2.0**15, 20)
    optimizer = scaled if how == "tape" else hvd.DistributedOptimizer(scaled)
    if how == "fit":
        model.compile(optimizer, loss="mse")
        begin = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=begin)
    else:

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = optimizer.scale_loss(tf.reduce_mean((model(x) - y) ** 2))
            tape = hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        for n in range(BEYOND):
            step(tf.constant(x[4 * n : 4 * n + 4]), tf.constant(y[4 * n : 4 * n + 4], tf.float16))
    check_equal(model.weights)
    check_equal(optimizer.variables)
    assert 0 < int(optimizer.inner_optimizer.iterations) < BEYOND


@pytest.mark.parametrize(("how", "rate"), [("fit", 0.02), ("loop", None)])
def test_rank_0_continues_and_the_others_begin(how, rate, tmp_path):
    """Rank 0 restores weights, counter and rate; the others get them after the first step."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    keras.utils.set_random_seed(hvd.rank())
    model, optimizer = network(3, 4), keras.optimizers.SGD(rate or schedule, momentum=0.5)
    if hvd.rank() == 0:
        model.compile(optimizer, loss="mse")
        model.fit(rows(40, 3), rows(40, 1), batch_size=4, verbose=0)
        if rate:
            optimizer.learning_rate = 0.005
        model.save(tmp_path / "model.keras")
        model = hvd_keras.load_model(tmp_path / "model.keras")
        optimizer = model.optimizer
    else:
        optimizer = hvd.DistributedOptimizer(optimizer)
        model.compile(optimizer, loss="mse")
    if how == "fit":
        begin = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
        model.fit(rows(40, 3), rows(40, 1), batch_size=4, epochs=7, verbose=0, callbacks=begin)
    else:
        train(model, optimizer, steps=1)
        hvd.broadcast_variables(model.weights, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)
        train(model, optimizer)
    check_equal([*model.weights, optimizer.iterations])


def test_rates_that_callbacks_set():
    keras.utils.set_random_seed(0)
    model = network(3, 4)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.02)), loss="mse")
    callbacks = [
        hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd_keras.callbacks.MetricAverageCallback(),
        hvd_keras.callbacks.LearningRateWarmupCallback(0.02, warmup_epochs=2),
        keras.callbacks.ReduceLROnPlateau("loss", patience=1),
    ]
    model.fit(rows(40, 3), rows(40, 1), batch_size=4, epochs=8, verbose=0, callbacks=callbacks)
    check_equal(model.weights)
