"""The training of a Fourier neural operator on pairs, whose batches the ranks share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.fno import FNO
from sciml_par.parallel.gradients.optimizer import DistributedOptimizer
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.reduce_op import Sum

Array = npt.NDArray[np.float64]

EPOCHS = 100
_BATCH, _RATE, _WARM, _SHOWN = 20, 2e-3, 2, 20
"""Pairs of a step, the highest rate, the epochs until it is reached, and those between lines."""
_MODES = {1: 12, 2: 8}
_TINY = 1e-12


def trained(
    a: Array,
    u: Array,
    sizes: Array,
    *,
    seed: int,
    elapsed: Callable[[], float],
    say: Callable[[str, float], None],
) -> FNO:
    """Minimize the mean relative error of outputs of a network (collective).

    Parameters
    ----------
    a, u : inputs [S, *grid, c] and outputs [S, *grid, m], of the order of one.
    sizes : of the outputs in the same units, [S].
    seed : of the weights and of the order of the pairs.
    elapsed : the part of the time that has gone, at most 1 for further epochs; the first rank's
        counts.
    say : shows how many epochs there have been, and their mean error.
    """
    everyone = current_world().communicator
    dimension = a.ndim - 2
    modes = min(_MODES[dimension], min(a.shape[1:-1]) // 2)
    model = FNO(a.shape[-1], u.shape[-1], dimension=dimension, modes=modes, seed=seed)
    optimizer = DistributedOptimizer(keras.optimizers.Adam(_RATE), op=Sum)
    data = [tf.constant(values, tf.float32) for values in (a, u, sizes)]
    variables = model.trainable_variables

    @tf.function
    def step(rows: Any, weights: Any) -> Any:
        inputs, outputs, size = (tf.gather(values, rows) for values in data)
        with tf.GradientTape() as tape:
            squares = tf.square(model(inputs) - outputs)
            norms = tf.sqrt(tf.reduce_sum(squares, axis=range(1, dimension + 2)) + _TINY)
            loss = tf.reduce_sum(weights * norms / size)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    rng = np.random.default_rng(seed)
    epoch, share = 0, 0.0
    while share < 1:
        optimizer.learning_rate = _RATE * _course(epoch, share)
        batches = _batches(rng.permutation(len(a)), everyone.rank, everyone.size)
        losses = [step(tf.constant(rows), tf.constant(weights)) for rows, weights in batches]
        epoch += 1
        parts = everyone.allgather_object((float(sum(losses)) / len(batches), elapsed()))
        share = max(epoch / EPOCHS, parts[0][1])
        if epoch % _SHOWN == 0 or share >= 1:
            say(f"{epoch} epochs", sum(loss for loss, _ in parts))
    return model


def _course(epoch: int, share: float) -> float:
    """Return the rate's factor: a rise, then half a cosine over the time that is left."""
    return min(1.0, (epoch + 1) / (_WARM + 1)) * (1 + math.cos(math.pi * share)) / 2


def _batches(order: Any, rank: int, size: int) -> list[tuple[Any, Any]]:
    """Return rows and weights of this rank in each batch, all of one length.

    Weights sum up to 1 over the ranks, and are 0 where a rank has a row less than others.
    """
    parts = np.array_split(order, max(1, round(len(order) / _BATCH)))
    length = -(-len(parts[0]) // size)
    batches = []
    for part in parts:
        chosen = part[rank::size]
        rows, weights = np.zeros(length, np.int32), np.zeros(length, np.float32)
        rows[: len(chosen)], weights[: len(chosen)] = chosen, 1 / len(part)
        batches.append((rows, weights))
    return batches
