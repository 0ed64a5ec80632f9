"""A custom loop with a model of Keras 2, in which only the import has changed."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
tf.keras.utils.set_random_seed(rank)


def batch(of):
    rng = np.random.default_rng([of, 1])
    return rng.normal(2 + of, 1 + of, size=(6, 3)).astype("float32")


def same(values):
    mine = b"".join(np.asarray(value).tobytes() for value in values)
    return len(set(hvd.allgather_object(mine))) == 1


def variables_of(optimizer):
    return optimizer.variables() if callable(optimizer.variables) else optimizer.variables


layers = tf.keras.layers
model = tf.keras.Sequential([layers.Input([3]), layers.Dense(4), layers.Dense(1)])
assert type(model).__module__.startswith("tf_keras")
x = batch(rank)
assert not same(model.get_weights())

for optimizer in (tf.keras.optimizers.Adam(0.01), tf.keras.optimizers.legacy.Adam(0.01)):

    @tf.function
    def step(first, optimizer=optimizer):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(variables_of(optimizer), root_rank=0)

    step(True)
    step(False)
    assert same(model.get_weights())

with tf.GradientTape() as tape:
    loss = tf.reduce_sum(model(x))
tape = hvd.PartialDistributedGradientTape(tape, local_layers=model.layers[0])
own, _, shared, _ = tape.gradient(loss, model.trainable_variables)
assert same([shared]) and not same([own])

bias = model.layers[0].bias
bias.assign(np.full(4, float(rank)))
np.testing.assert_array_equal(hvd.allreduce(bias, op=hvd.Sum), np.full(4, sum(range(size))))
np.testing.assert_array_equal(hvd.broadcast_([bias], root_rank=1)[0], np.ones(4))
