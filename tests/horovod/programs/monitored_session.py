"""A program for Horovod in TensorFlow 1's style, in which only the import has changed."""

import numpy as np
import tensorflow.compat.v1 as tf

import sciml_par.horovod.tensorflow as hvd

tf.disable_v2_behavior()

hvd.init()

rng = np.random.default_rng(hvd.rank())
inputs, targets = rng.normal(size=(8, 3)), rng.normal(size=(8, 1))


def batches():
    while True:
        for begin in (0, 4):
            yield inputs[begin : begin + 4], targets[begin : begin + 4]


x = tf.placeholder(tf.float32, [None, 3], name="x")
y = tf.placeholder(tf.float32, [None, 1], name="y")
w = tf.get_variable("w", initializer=tf.fill([3, 1], 1.0 + hvd.rank()))
loss = tf.losses.mean_squared_error(y, tf.matmul(x, w))

opt = tf.train.MomentumOptimizer(0.05 * hvd.size(), momentum=0.5)
opt = hvd.DistributedOptimizer(opt)
global_step = tf.train.get_or_create_global_step()
train_op = opt.minimize(loss, global_step=global_step)
mean_loss = hvd.allreduce(loss, name="mean_loss")

hooks = [
    hvd.BroadcastGlobalVariablesHook(0),
    tf.train.StopAtStepHook(last_step=12 // hvd.size()),
    tf.train.LoggingTensorHook(tensors={"step": global_step, "loss": loss}, every_n_iter=2),
]
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
checkpoint_dir = "./checkpoints" if hvd.rank() == 0 else None

generator = batches()
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=checkpoint_dir, hooks=hooks, config=config
) as mon_sess:
    while not mon_sess.should_stop():
        batch_x, batch_y = next(generator)
        feed_dict = {x: batch_x, y: batch_y}
        before = mon_sess.run(w, feed_dict=feed_dict)
        _, average = mon_sess.run([train_op, mean_loss], feed_dict=feed_dict)

np.save(f"weights-{hvd.rank()}.npy", before)
np.save(f"average-{hvd.rank()}.npy", average)
