"""Measure how many images a second P ranks train a ResNet-34 on together.

Every rank has a copy of the network (He et al. 2015, arXiv:1512.03385) and a separate batch of
synthetic images. In each step the ranks average their gradients, 87 MB, and all take the same
step of stochastic gradient descent. The batch of a rank stays the same for any number of ranks,
so with ideal scaling P ranks train on P times the images a second.

    mpirun -np 2 python scripts/resnet34_throughput.py
    python scripts/resnet34_throughput.py --ranks 1,2,4 --image-size 64 --batch 8
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciml_par import programs, rank, size
from sciml_par.parallel import barrier, broadcast_variables

CLASSES = 1000
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # filters, and blocks of two convolutions


@dataclass(kw_only=True)
class Options(programs.ScalingStudyOptions):
    image_size: programs.PositiveInteger = 64
    """pixels along each edge of an image; 224 in the paper"""
    batch: programs.PositiveInteger = 8
    """images a step and rank"""
    batches: programs.PositiveInteger = 2
    """steps in a block; each block gives one rate"""
    blocks: programs.PositiveInteger = 5
    """blocks that mean and standard deviation are taken over"""
    warm_up: programs.PositiveInteger = 3
    """steps before the first block"""
    jit_compile: bool = False
    """compile the training step by XLA"""


def resnet34(image_size: int):
    """Build the network of Table 1 in the paper, with projections at new shapes (option B)."""
    import keras
    from keras import layers

    def convolution(x, filters, kernel, strides=1):
        x = layers.Conv2D(filters, kernel, strides, padding="same", use_bias=False)(x)
        return layers.BatchNormalization()(x)

    def block(x, filters, strides):
        y = layers.ReLU()(convolution(x, filters, 3, strides))
        y = convolution(y, filters, 3)
        if strides > 1:
            x = convolution(x, filters, 1, strides)
        return layers.ReLU()(layers.Add()([x, y]))

    image = keras.Input((image_size, image_size, 3))
    x = layers.ReLU()(convolution(image, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for stage, (filters, blocks) in enumerate(STAGES):
        for number in range(blocks):
            x = block(x, filters, 2 if stage > 0 and number == 0 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(CLASSES)(x), name="resnet34")


def measure(options) -> programs.Record:
    import keras  # not above: `init` comes before TensorFlow

    from sciml_par.parallel import DistributedOptimizer

    keras.utils.set_random_seed(0)
    model = resnet34(options.image_size)
    broadcast_variables(model.variables)
    model.compile(
        optimizer=DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=options.jit_compile,
    )
    random = np.random.default_rng([0, rank()])
    edge = options.image_size
    images = random.standard_normal((options.batch, edge, edge, 3), np.float32)
    labels = random.integers(CLASSES, size=options.batch)

    def train(steps: int) -> float:
        """Return the images a second of all ranks together."""
        barrier()
        start = time.perf_counter()
        for _ in range(steps):
            model.train_on_batch(images, labels)
        barrier()
        return size() * options.batch * steps / (time.perf_counter() - start)

    train(options.warm_up)
    rates = [train(options.batches) for _ in range(options.blocks)]
    parameters = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    return {"parameters": parameters, "images_per_second": rates}


def show(options, records: list[programs.Record], folder: Path) -> None:
    ranks = [record["ranks"] for record in records]
    measured = [record["images_per_second"] for record in records]
    rates = [(np.mean(each), np.std(each, ddof=min(len(each) - 1, 1))) for each in measured]
    efficiency = programs.speed_up(ranks, [1.0 / mean for mean, _ in rates]) / ranks
    print(
        f"ResNet-34, {records[0]['parameters']:,} parameters, images {options.image_size} × "
        f"{options.image_size}, {options.batch} a step and rank, "
        f"{options.blocks} × {options.batches} steps"
    )
    rows = [
        [str(p), f"{mean:.2f} ± {deviation:.2f}", f"{mean / p:.2f}", f"{share:.2f}"]
        for p, (mean, deviation), share in zip(ranks, rates, efficiency, strict=True)
    ]
    programs.print_table(["ranks", "images/s", "images/s per rank", "efficiency"], rows)


def main() -> None:
    programs.run_scaling_study(Options.parse(__doc__), measure, show)


if __name__ == "__main__":
    programs.run(main)
