"""Learn an operator from pairs: regression and a Fourier neural operator, and which is better."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, is_positive
from sciml_par._tensorflow import tf
from sciml_par._terminal import console
from sciml_par.errors import InputError
from sciml_par.families.learned import Learned, Regression, Side
from sciml_par.families.pairs import LEAST, Pairs
from sciml_par.families.pairs_operator import PairsOperator
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.fno import FNO
from sciml_par.parallel.gradients.optimizer import DistributedOptimizer
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.reduce_op import Sum

Array = npt.NDArray[np.float64]

_PART, _MOST = 10, 200
"""One of so many pairs is left out, and at most so many."""
EPOCHS = 100
_BATCH, _RATE, _WARM, _SHOWN = 20, 2e-3, 2, 20
"""Pairs of a step, the highest rate, the epochs until it is reached, and those between lines."""
_MODES = {1: 12, 2: 8}
_TINY = 1e-12


def learn_pairs(pairs: Pairs, *, seconds: float, seed: int, progress: bool) -> PairsOperator:
    """Learn an operator from pairs, alike on all ranks (collective); see `learn`."""
    everyone, began = current_world().communicator, time.perf_counter()
    everyone.attempt(lambda: _check(seconds, seed))
    digest = hashlib.sha256(pairs.inputs.tobytes() + pairs.outputs.tobytes()).hexdigest()[:8]
    asked = everyone.allgather_object(f"{pairs} of digest {digest}, {seconds=}, {seed=}")
    if len(set(asked)) > 1:
        raise InputError(f"learn: expected the same pairs on every rank; got {asked}.")

    def elapsed() -> float:
        return time.perf_counter() - began

    def say(step: str, size: str, error: str, gone: str = "") -> None:
        if progress and everyone.rank == 0:
            gone = gone or f"{elapsed():.1f} s"
            console().print(f"{step:<11}{size:<33}{error:<26}{gone:>8}")

    say("step", "size", "relative error", "time")
    count = min(max(LEAST // 2, len(pairs) // _PART), _MOST)
    left_out, rows = np.split(np.random.default_rng(seed).permutation(len(pairs)), [count])
    inputs = Side.of(pairs.inputs[rows], pairs.input_grid)
    outputs = Side.of(pairs.outputs[rows], pairs.output_grid)
    a, u = inputs.scaled(pairs.inputs), outputs.scaled(pairs.outputs)
    regression, model = everyone.on_root(lambda: Regression.of(a[rows], u[rows])), None
    size = f"{len(regression.inputs.axes)} to {len(regression.outputs.axes)} principal components"
    say("regression", size, "")
    grid = pairs.input_grid
    if grid == pairs.output_grid and len(grid) < 3 and min(grid) > 3 and pairs.even:
        model = trained(
            a[rows],
            u[rows],
            outputs.sizes(u[rows]),
            seed=seed,
            elapsed=lambda: elapsed() / seconds,
            say=lambda epochs, error: say("Fourier", epochs, f"{error:.1e} in training"),
        )
    learned = Learned(inputs, outputs, regression, model)
    operator = PairsOperator(learned, learned.judged(a[left_out], u[left_out]), len(pairs))
    for method, errors in operator.left_out.items():
        say("left out", method, f"{np.mean(errors):.1e}, at most {errors.max():.1e}")
    return operator


def _check(seconds: Any, seed: Any) -> None:
    if not is_positive(seconds):
        raise InputError(f"learn: seconds must be a number > 0; got {seconds!r}.")
    checked_integer(seed, "learn: seed", least=0)


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
    sizes : of the outputs, root mean squares over the grid, [S].
    seed : of the weights and of the order of the pairs.
    elapsed : the part of the time that has gone, at most 1 for further epochs; the first rank's
        counts.
    say : show how many epochs there have been, and the mean error of the last one.
    """
    everyone = current_world().communicator
    dimension = a.ndim - 2
    modes = min(_MODES[dimension], min(a.shape[1:-1]) // 2)
    model = FNO(a.shape[-1], u.shape[-1], dimension=dimension, modes=modes, seed=seed)
    optimizer = DistributedOptimizer(keras.optimizers.Adam(_RATE), op=Sum)
    data = [tf.constant(values, tf.float32) for values in (a, u, sizes)]
    variables = model.trainable_variables

    @tf.function(autograph=False)
    def step(rows: Any, weights: Any) -> Any:
        inputs, outputs, size = (tf.gather(values, rows) for values in data)
        with tf.GradientTape() as tape:
            squares = tf.square(model(inputs) - outputs)
            means = tf.reduce_mean(tf.reduce_sum(squares, axis=-1), axis=range(1, dimension + 1))
            loss = tf.reduce_sum(weights * tf.sqrt(means + _TINY) / size)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    rng = np.random.default_rng(seed)
    epoch, share = 0, 0.0
    while share < 1:
        # It rises, and then falls as half a cosine over the time that is left.
        course = min(1.0, (epoch + 1) / (_WARM + 1)) * (1 + math.cos(math.pi * share)) / 2
        optimizer.learning_rate = _RATE * course
        batches = _batches(rng.permutation(len(a)), everyone.rank, everyone.size)
        losses = [step(tf.constant(rows), tf.constant(weights)) for rows, weights in batches]
        epoch += 1
        parts = everyone.allgather_object((float(sum(losses)) / len(batches), elapsed()))
        share = max(epoch / EPOCHS, parts[0][1])
        if epoch % _SHOWN == 0 or share >= 1:
            say(f"{epoch} epochs", sum(loss for loss, _ in parts))
    return model


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
