"""A program for Horovod in TensorFlow 2's style, in which only the import has changed."""

import numpy as np
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd

hvd.init()

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

rng = np.random.default_rng(hvd.rank())
dataset = tf.data.Dataset.from_tensor_slices(
    (rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(8, 1)).astype("float32"))
)
dataset = dataset.repeat().batch(4)

model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
model.build((None, 3))
model.set_weights([np.full((3, 1), 1.0 + hvd.rank(), "float32")])
mean_squares = tf.losses.MeanSquaredError()
opt = tf.optimizers.SGD(0.05 * hvd.size(), momentum=0.5)
checkpoint = tf.train.Checkpoint(model=model)


@tf.function
def training_step(x, y, first_batch):
    with tf.GradientTape() as tape:
        loss = mean_squares(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables, root_rank=0)
    return loss


for batch, (x, y) in enumerate(dataset.take(12 // hvd.size())):
    loss = training_step(x, y, batch == 0)
    if batch % 2 == 0 and hvd.local_rank() == 0:
        print(f"Step #{batch}\tLoss: {loss:.6f}")

losses = hvd.allgather(tf.reshape(loss, [1]))
if hvd.rank() == 0:
    checkpoint.save("checkpoints/model")
    np.save("losses.npy", losses)
np.save(f"weights-{hvd.rank()}.npy", model.get_weights()[0])
