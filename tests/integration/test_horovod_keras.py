"""Programs as Horovod's users write them for Keras 3, with one import changed, and for Keras 2."""

from __future__ import annotations

import importlib.util
import zipfile

import keras
import numpy as np
import pytest
from launch import ROOT, launch

RANKS = 2

PROGRAM = """
import numpy as np
import tensorflow as tf
import sciml_par.horovod.tensorflow.keras as hvd

hvd.init()

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.backend.set_floatx("float64")
images = np.random.default_rng(1000 + hvd.rank()).normal(size=(40, 6, 6, 1))
labels = (images[:, 2, 2, 0] > 0).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)

tf.keras.utils.set_random_seed(hvd.rank())
model = tf.keras.Sequential([
    tf.keras.layers.Input([6, 6, 1]),
    tf.keras.layers.Conv2D(4, [3, 3], activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(2, activation="softmax"),
])

scaled_lr = 0.004 * hvd.size()
opt = tf.optimizers.Adam(scaled_lr)
opt = hvd.DistributedOptimizer(
    opt, backward_passes_per_step=1, average_aggregated_gradients=True)
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(),
              optimizer=opt,
              metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=2, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("./checkpoint-{epoch}.keras"))
"""

FIT = """
model.fit(dataset, steps_per_epoch=5, callbacks=callbacks, epochs=3,
          verbose=2 if hvd.rank() == 0 else 0)
"""

OBSERVE = """
import sciml_par.parallel as sp

class Observer(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rates, self.counts = [], []

    def on_train_begin(self, logs=None):
        self.first = [w.numpy() for w in self.model.weights]

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))
        self.before = sp.current_world().communicator.progress.sequence

    def on_train_batch_end(self, batch, logs=None):
        self.counts.append(sp.current_world().communicator.progress.sequence - self.before)

observer = Observer()
callbacks.append(observer)
model.jit_compile = True
"""

COMPARE = """
flat = np.concatenate([w.ravel() for w in model.get_weights()])
everyone = hvd.allgather(flat[np.newaxis]).numpy()
assert (everyone == everyone[0]).all(), "the weights differ"
histories = hvd.allgather_object(model.history.history)
assert all(each == histories[0] for each in histories), histories
# At the first update the ranks compare their settings, at the eighth their weights.
assert observer.counts == [2, *[1] * 6, 2, *[1] * 7], observer.counts

# The same by one rank, on the batches of all of them.
parts = hvd.allgather_object((images.reshape(5, 8, 6, 6, 1), labels.reshape(5, 8)))
xs, ys = (np.concatenate(each, axis=1) for each in zip(*parts))
serial = tf.keras.models.clone_model(model)
serial.set_weights(observer.first)
serial.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=tf.optimizers.Adam(),
               jit_compile=False)
for i, rate in enumerate(observer.rates):
    serial.optimizer.learning_rate = rate
    serial.train_on_batch(xs[i % 5], ys[i % 5])
for ours, theirs in zip(model.get_weights(), serial.get_weights()):
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
if hvd.rank() == 0:
    np.save("weights.npy", flat)
"""


@pytest.mark.launches
def test_a_keras_program_of_horovods_runs_with_one_import_changed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + OBSERVE + FIT + COMPARE)
    ended = launch(RANKS, program, folder=tmp_path, threads=1)
    assert ended.code == 0, ended.err
    assert ended.out.count("the warm-up ends") == 1

    path = tmp_path / "checkpoint-3.keras"
    assert "sciml_par" not in zipfile.ZipFile(path).read("config.json").decode()
    model = keras.models.load_model(path)
    assert type(model.optimizer) is keras.optimizers.Adam
    assert int(model.optimizer.iterations.numpy()) == 15
    flat = np.concatenate([w.ravel() for w in model.get_weights()])
    np.testing.assert_array_equal(flat, np.load(tmp_path / "weights.npy"))


@pytest.mark.long
@pytest.mark.launches
@pytest.mark.skipif(not importlib.util.find_spec("tf_keras"), reason="needs Keras 2: tf_keras")
def test_the_facade_with_keras_2(tmp_path, monkeypatch):
    # Which Keras tf.keras is, is decided for a whole process; so the cases take more than 10 s in
    # one go, instead of as tests of this run.
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    folder = ROOT / "tests" / "horovod"
    # To collect the program, which has no tests, is to run it.
    cases = [*sorted((folder / "keras2").glob("*_cases.py")), folder / "programs" / "keras_two.py"]
    run = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *cases)
    ended = launch(RANKS, *run, folder=tmp_path, threads=1, fresh=True)
    assert ended.code == 0, f"{ended.out}\n{ended.err}"
