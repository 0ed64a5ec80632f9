"""The training loop, compiled: many steps, with their collectives, in one XLA call."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.xla_custom_call import bridge
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.objective import Objective
from sciml_par.training.optimizers.adam import Adam

Tensor = Any
_RECORDS_PER_CHUNK = 1024


@dataclass
class State:
    """Where a training stands.

    Attributes
    ----------
    step : how many updates the parameters have had.
    parameters : θ, [p].
    moments : the optimizer's state.
    """

    step: int
    parameters: Tensor
    moments: Any


@dataclass(frozen=True)
class Chunk:
    """What one call of the compiled loop brought.

    Attributes
    ----------
    state : afterwards. After a loss or gradient that is not finite, it is that of the step before.
    finite : whether all losses and gradients were finite.
    loss : the last loss that was computed, that of the parameters before the last update.
    steps, losses : the recorded losses; losses[k] is that of the parameters after steps[k] updates.
    seconds : duration.
    """

    state: State
    finite: bool
    loss: float
    steps: np.ndarray
    losses: np.ndarray
    seconds: float


class Loop:
    """Runs steps of an optimizer on an objective.

    Parameters
    ----------
    objective, optimizer : what to minimize, and how.
    log_every : the loss is recorded at every multiple of this number of updates.
    communicator : the ranks that share the objective.
    """

    def __init__(
        self, objective: Objective, optimizer: Adam, *, log_every: int, communicator: Communicator
    ) -> None:
        self._objective = objective
        self._optimizer = optimizer
        self._log_every = log_every
        compiled = compiles_collectives(communicator)
        # Without collectives in compiled functions, the loop is an ordinary graph around them.
        self._local = None if compiled else tf.function(objective.local, jit_compile=True)
        self._run = tf.function(self._steps, jit_compile=compiled, autograph=False)

    def start(self, values: list[np.ndarray], dtype: str) -> State:
        """The state before the first step, from initial parameters (local)."""
        parameters = self._objective.flatten([tf.constant(v, dtype) for v in values])
        return State(0, parameters, self._optimizer.start(parameters))

    def parameters_of(self, flat: Tensor) -> list[Tensor]:
        """The parameters in the shapes of the network's, from the flat vector (local)."""
        return self._objective.unflatten(flat)

    def longest_chunk(self, step: int) -> int:
        """How many steps the next chunk may have at most, beginning after `step` updates."""
        first = math.ceil(step / self._log_every)
        return (first + _RECORDS_PER_CHUNK) * self._log_every - step

    def advance(self, state: State, count: int) -> Chunk:
        """Do `count` steps (collective in the objective's group)."""
        began = time.perf_counter()
        done, parameters, moments, loss, finite, records = self._run(
            state.parameters, state.moments, tf.constant(state.step), tf.constant(count)
        )
        done, loss, finite = int(done), float(loss), bool(finite)
        seconds = time.perf_counter() - began
        first = math.ceil(state.step / self._log_every)
        complete = max(0, math.ceil((state.step + done) / self._log_every) - first)
        return Chunk(
            state=State(state.step + done, parameters, moments),
            finite=finite,
            loss=loss,
            steps=(first + np.arange(complete)) * self._log_every,
            losses=records.numpy()[:complete].astype(np.float64),
            seconds=seconds,
        )

    def _steps(self, parameters: Tensor, moments: Any, first: Tensor, count: Tensor) -> Any:
        dtype = parameters.dtype
        records = tf.zeros([_RECORDS_PER_CHUNK + 1], dtype)
        # The record number k holds the loss after k·log_every updates: of the losses computed on
        # the way there each overwrites the one before, so the loop needs no branch.
        base = _ceil_div(first, self._log_every)

        def go_on(done: Tensor, _p: Any, _m: Any, _l: Any, finite: Tensor, _r: Any) -> Tensor:
            return tf.logical_and(done < count, finite)

        def step(done: Tensor, parameters: Tensor, moments: Any, *rest: Any) -> Any:
            records = rest[-1]
            loss, gradient = self._objective.value_and_gradient(parameters, self._local)
            finite = tf.math.is_finite(loss) & tf.reduce_all(tf.math.is_finite(gradient))
            new = self._optimizer.update(parameters, gradient, moments, first + done + 1)
            parameters, moments = tf.nest.map_structure(
                lambda after, before: tf.where(finite, after, before), new, (parameters, moments)
            )
            place = _ceil_div(first + done, self._log_every) - base
            records = tf.tensor_scatter_nd_update(records, [[place]], [loss])
            return done + tf.cast(finite, done.dtype), parameters, moments, loss, finite, records

        start = (tf.constant(0), parameters, moments, tf.zeros([], dtype), tf.constant(True))
        return tf.while_loop(go_on, step, (*start, records))


def compiles_collectives(communicator: Communicator) -> bool:
    """Whether collectives of this group work inside compiled functions here; warns if not."""
    if communicator.size == 1:
        return True
    try:
        bridge()
    except InputError as error:
        if communicator.rank == 0:
            warnings.warn(
                f"{error} Training goes on with a loop that is not compiled as a whole, "
                f"which makes small steps several times slower.",
                RuntimeWarning,
                stacklevel=2,
            )
        return False
    return True


def _ceil_div(a: Tensor, b: int) -> Tensor:
    return (a + b - 1) // b
