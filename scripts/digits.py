"""Train a convolutional network on handwritten digits with Keras' `fit`, on any number of ranks.

Every rank has a copy of the network, every P-th training image, and batches of a fixed size. The
gradients are averaged over the ranks, so P ranks take steps on batches P times as large, P times
fewer an epoch. The learning rate is therefore P times as large too, after a warm-up of some epochs
from the rate of one rank (Goyal et al. 2017, arXiv:1706.02677).

    mpirun -np 2 python scripts/digits.py
    python scripts/digits.py --ranks 1,2,4
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from matplotlib.figure import Figure

from sciml_par import programs, rank, size
from sciml_par.errors import InputError
from sciml_par.evaluation import save_figure
from sciml_par.parallel import Sum, allreduce, current_world

TEST_IMAGES = 360  # of scikit-learn's 1797; the rest is for training
DIGITS = 10


@dataclass(kw_only=True)
class Options(programs.ScalingStudyOptions):
    epochs: programs.PositiveInteger = 15
    """passes over the training images"""
    batch: programs.PositiveInteger = 32
    """images of a step on one rank"""
    learning_rate: programs.PositiveNumber = 0.02
    """of stochastic gradient descent on one rank"""
    warm_up: programs.NaturalNumber = 3
    """epochs in which the learning rate rises"""
    seed: programs.NaturalNumber = 0
    """of the initial weights, the dropout and the order of images"""
    mnist: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """MNIST in the format of mnist.npz, instead of scikit-learn's digits"""
    plots: programs.Switch = True
    """draw a figure"""


def load(file: Path | None):
    """Load images [n, h, w, 1] from 0 to 1 and digits [n], for training and for the test."""
    if file is not None:
        names = ("x_train", "y_train", "x_test", "y_test")
        try:
            with np.load(file) as stored:
                x, y, x_test, y_test = (stored[name] for name in names)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"--mnist: expected {file} to hold the arrays {', '.join(names)}; {error}."
            ) from None
    else:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise InputError(
                "the digits come with scikit-learn, which is not installed: pip install "
                "'sciml-par[examples]', or name a file by --mnist."
            ) from None
        images, digits = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        images, digits = images.reshape(-1, 8, 8)[order], digits[order]
        x, x_test = images[TEST_IMAGES:], images[:TEST_IMAGES]
        y, y_test = digits[TEST_IMAGES:], digits[:TEST_IMAGES]
    white = np.float32(x.max())
    x, x_test = (images[..., np.newaxis].astype(np.float32) / white for images in (x, x_test))
    return (x, y.astype(np.int64)), (x_test, y_test.astype(np.int64))


def convolutional_network(shape):
    """Build two convolutions, pooling and a dense layer: 151,306 weights for 8 × 8 pixels."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.25),
            layers.Dense(DIGITS, activation="softmax"),
        ]
    )


def measure(options) -> programs.Record:
    import keras  # not above: `init` comes before TensorFlow

    train, test = current_world().communicator.attempt(partial(load, options.mnist))
    shard, (x_test, y_test) = (
        tuple(array[rank() :: size()] for array in part) for part in (train, test)
    )
    # The ranks draw their own dropout and order of images; the initial weights are rank 0's.
    keras.utils.set_random_seed(options.seed + rank())
    model = convolutional_network(x_test.shape[1:])
    steps = -(-len(train[0]) // (options.batch * size()))
    start = time.perf_counter()
    history = fit(model, shard, (x_test, y_test), steps, options)
    seconds = time.perf_counter() - start
    right = np.count_nonzero(model.predict(x_test, verbose=0).argmax(axis=1) == y_test)
    return {
        "seconds": seconds,
        "test_accuracy": int(allreduce(np.int64(right), Sum)) / len(test[0]),
        "accuracies": [float(value) for value in history["val_accuracy"]],
        "training_accuracies": [float(value) for value in history["accuracy"]],
    }


def fit(model, shard, test, steps: int, options) -> dict[str, list[float]]:
    """Train on this rank's images together with the other ranks; the metrics after each epoch."""
    import keras
    import tensorflow as tf

    import sciml_par.horovod.tensorflow.keras as hvd

    learning_rate = options.learning_rate * size()
    model.compile(
        optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(learning_rate, momentum=0.9)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # The shards may differ by an image, but all ranks must take the same number of steps.
    images = tf.data.Dataset.from_tensor_slices(shard).shuffle(len(shard[0])).repeat()
    history = model.fit(
        images.batch(options.batch),
        epochs=options.epochs,
        steps_per_epoch=steps,
        validation_data=test,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(learning_rate, warmup_epochs=options.warm_up),
        ],
        shuffle=False,  # the images are
        verbose=0,
    )
    return history.history


def show(options, records: list[programs.Record], folder: Path) -> None:
    rows = [
        [
            str(record["ranks"]),
            str(record["ranks"] * options.batch),
            f"{record['ranks'] * options.learning_rate:g}",
            f"{record['seconds']:.1f}",
            f"{100 * record['test_accuracy']:.2f} %",
        ]
        for record in records
    ]
    headings = ["ranks", "batch of all", "learning rate", "seconds", "test accuracy"]
    programs.print_table(headings, rows)
    if options.plots:
        save_figure(figure_of(records), folder, "accuracy")


def figure_of(records):
    """Draw the accuracy on the test data after each epoch, and a thin line for training data."""
    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axes = figure.subplots()
    for record in records:
        epochs = np.arange(1, 1 + len(record["accuracies"]))
        label = f"{record['ranks']} rank{'s' * (record['ranks'] > 1)}"
        (line,) = axes.plot(epochs, record["accuracies"], "o-", markersize=3, label=label)
        thin = {"color": line.get_color(), "linewidth": 0.7, "alpha": 0.5}
        axes.plot(epochs, record["training_accuracies"], **thin)
    axes.plot([], [], color="gray", linewidth=0.7, label="training data")
    axes.set(xlabel="epoch", ylabel="accuracy", title="Handwritten digits")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return figure


def main() -> None:
    programs.run_scaling_study(Options.parse(__doc__), measure, show)


if __name__ == "__main__":
    programs.run(main)
