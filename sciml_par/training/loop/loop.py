"""The training loop, compiled: many steps, with their collectives, in one XLA call."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sciml_par._compiled_function import CompiledFunction
from sciml_par._tensorflow import tf
from sciml_par._xla_gradients import register_gradients
from sciml_par.errors import InputError
from sciml_par.parallel.execution.xla_custom_call import bridge
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.loss.known import Value
from sciml_par.training.loss.objective import StackedObjective
from sciml_par.training.optimizers.optimizer import At, Optimizer
from sciml_par.training.points.feed import Batch, Feed
from sciml_par.training.weights.loss_weights import Weighting

Tensor = Any
_RECORDS_PER_CHUNK = 1024

RUNNING, TARGET_LOSS, NO_PROGRESS, NOT_FINITE, NO_DECREASE = 0, 1, 2, 3, 4


class State(NamedTuple):
    """Where M stacked members stand, as tensors. All that a chunk of steps changes.

    The loss that is judged is that of a step, or with minibatches the mean over an epoch.
    """

    parameters: Tensor  # θ, [M, p]
    optimizer: Any
    ended: Tensor  # RUNNING, or why a member makes no more steps, [M]
    steps: Tensor  # how many updates each member has had, [M]
    best: Tensor  # the parameters with the least loss that was judged, [M, p]
    best_loss: Tensor
    best_step: Tensor
    reference_loss: Tensor  # the last that counts as progress, [M]
    reference_step: Tensor
    epoch_loss: Tensor  # the sum of the losses of this epoch's steps, [M]
    weights: Any = ()  # of the strategy that weighs the loss
    held_out: Any = ()  # the least loss at held-out values, [M], by which `HoldoutWatcher` judges


class Limits(NamedTuple):
    """The limits at which a member ends, as scalars; see `sciml_par.training.loop.stops`."""

    target_loss: Tensor  # below 0 for none
    patience: Tensor  # steps without progress, an integer
    least_progress: Tensor  # the share by which the loss must fall to count as progress


class Span(NamedTuple):
    """Which steps a chunk has, so many after `step` updates; whole numbers."""

    step: int
    phase_start: int  # after how many steps the phase began
    steps: int
    log_every: int


@dataclass(frozen=True)
class Chunk:
    """What one call of the compiled loop brought."""

    state: State
    done: int  # steps that some member has made
    terms: np.ndarray  # of the loss before the last step, [M, T]
    steps: np.ndarray  # after which updates there are records, [K]
    records: np.ndarray  # the terms then, and the q parameters of unknowns, [K, M, T + q]
    weights: np.ndarray  # what the strategy multiplied the terms by, [K, M, T] or [K, M, 0]
    seconds: float


class Loop:
    """Steps of an optimizer on an objective, compiled."""

    def __init__(
        self,
        objective: StackedObjective,
        optimizer: Optimizer,
        feed: Feed,
        *,
        weighting: Weighting | None = None,
        programs: dict[Any, Any] | None = None,
        holds_out: bool = False,
    ) -> None:
        self._objective, self._optimizer = objective, optimizer
        self._weighting, self._holds_out = weighting, holds_out
        self._batch = feed.batch
        self._epoch = feed.steps_per_epoch
        self._same_points = feed.same_points
        self._compiled = compiles_collectives(objective.ranks.communicator)
        register_gradients()
        self._programs = {} if programs is None else programs

    def start(self, parameters: Tensor, before: State | None = None) -> State:
        """Return the state before the first step of a phase from θ: [M, p].

        It keeps the best weights of `before`, the state at the end of the phase before.
        """
        members = parameters.shape[0]
        dtype = parameters.dtype
        moments = self._optimizer.init(self._objective, parameters)
        weights = self._weighting.start(members, dtype) if self._weighting else ()
        if before is not None:
            return before._replace(optimizer=moments, epoch_loss=tf.zeros_like(before.epoch_loss))
        none = tf.fill([members], tf.constant(math.inf, dtype))
        count = tf.zeros([members], tf.int32)
        return State(
            parameters=parameters,
            optimizer=moments,
            ended=count,
            steps=count,
            best=parameters,
            best_loss=none,
            best_step=count,
            reference_loss=none,
            reference_step=count,
            epoch_loss=tf.zeros([members], dtype),
            weights=weights,
            held_out=none if self._holds_out else (),
        )

    def finish(self, state: State) -> State:
        """Return the state with the parameters that the phase ends with."""
        parameters = self._optimizer.finish(self._objective, state.parameters, state.optimizer)
        return state._replace(parameters=parameters)

    def advance(
        self, state: State, data: Any, limits: Limits, rate_factor: Tensor, span: Span
    ) -> Chunk:
        """Do the steps of a span (collective in the objective's group)."""
        began, (step, _, _, log_every) = time.perf_counter(), span
        arguments = (state, data, limits, rate_factor, tf.constant(span, tf.int32))
        program = self._program("steps", self._steps, arguments, self._prepare)
        after, done, terms, records = program(*arguments)
        done = int(done)
        seconds = time.perf_counter() - began
        first = math.ceil(step / log_every)
        complete = max(0, math.ceil((step + done) / log_every) - first)
        recorded = records.numpy()[:complete].astype(np.float64)
        count = terms.shape[1] + self._objective.layout.size_of_unknowns
        return Chunk(
            state=after,
            done=done,
            terms=terms.numpy().astype(np.float64),
            steps=(first + np.arange(complete)) * log_every,
            records=recorded[..., :count],
            weights=recorded[..., count:],
            seconds=seconds,
        )

    def terms_at(self, parameters: Tensor, batch: Batch) -> np.ndarray:
        """Return the terms of the loss at θ: [M, p] on a batch: [M, T] (collective)."""

        def value(parameters: Tensor, batch: Batch) -> Tensor:
            return self._objective.evaluate(Value, parameters, batch).terms

        found = self._program("value", value, (parameters, batch))(parameters, batch)
        return np.asarray(found.numpy(), np.float64)

    def squares_at(self, parameters: Tensor, batch: Batch, counts: tuple[int, ...]) -> np.ndarray:
        """Return Σ_t w_t |r_t|² over the equations, at points of all ranks: [M, N] (collective)."""
        squares, arguments = partial(self._objective.squares, counts=counts), (parameters, batch)
        found = self._program(f"squares {counts}", squares, arguments)(*arguments)
        return np.asarray(found.numpy(), np.float64).T

    def _prepare(self, state: State, data: Any, *others: Any) -> None:
        """Let the optimizer and the weighting see the batch of a step before they are traced."""
        batch = self._batch(data, others[-1][0])
        self._objective.prepare(self._optimizer.needs, state.parameters, batch)
        if self._weighting:
            self._weighting.prepare(state.parameters, batch)

    def _program(
        self, name: str, function: Any, arguments: tuple[Any, ...], before: Any = None
    ) -> Any:
        """Return the function for arguments of these shapes and types, traced where it is not yet.

        Programs outlive the loop; what is not among them yet is traced from this loop's functions,
        not from those of the training that traced the others.
        """
        if not self._optimizer.compiles:
            return function
        specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), arguments)
        key = (name, tuple((tuple(s.shape), s.dtype) for s in tf.nest.flatten(specs)))
        if key not in self._programs:
            if before is not None:
                before(*arguments)
            self._programs[key] = (
                CompiledFunction(function, specs)
                if self._compiled
                else tf.function(function, autograph=False).get_concrete_function(*specs)
            )
        return self._programs[key]

    def _steps(
        self, state: State, data: Any, limits: Limits, rate_factor: Tensor, numbers: Tensor
    ) -> Any:
        first, phase_start, count, log_every = tf.unstack(numbers)
        base = _ceil_div(first, log_every)
        members, terms = state.parameters.shape[0], len(self._batch(data, first))
        shown = terms if self._weighting else 0
        dtype = state.parameters.dtype

        def go_on(done: Tensor, state: State, _t: Tensor, _r: Tensor) -> Tensor:
            return tf.logical_and(done < count, tf.reduce_any(state.ended == RUNNING))

        def step(done: Tensor, state: State, _t: Tensor, records: Tensor) -> Any:
            at = At(
                first + done - phase_start + 1,
                rate_factor,
                running=state.ended == RUNNING,
                same_points=self._same_points,
            )
            batch = self._batch(data, first + done)
            before = state
            state, terms, weights = self._step(state, batch, limits, at, first + done)
            # The record number k holds the loss after k·log_every updates: of the losses computed
            # on the way there each overwrites the one before, so the loop needs no branch.
            place = _ceil_div(first + done, log_every) - base
            unknowns = before.parameters[:, self._objective.layout.size_of_network :]
            row = tf.concat([terms, unknowns, weights], axis=1)
            records = tf.tensor_scatter_nd_update(records, [[place]], row[None])
            # A step in which the last members end is none.
            made = tf.reduce_any(state.steps != before.steps)
            return done + tf.cast(made, done.dtype), state, terms, records

        if self._weighting:
            state = state._replace(weights=self._weighting.of_rank(state.weights))
        width = terms + self._objective.layout.size_of_unknowns + shown
        records = tf.zeros([_RECORDS_PER_CHUNK + 1, members, width], dtype)
        begin = (tf.constant(0), state, tf.zeros([members, terms], dtype), records)
        done, state, terms, records = tf.while_loop(go_on, step, begin)
        if self._weighting:
            state = state._replace(weights=self._weighting.of_all(state.weights))
        return state, done, terms, records

    def _step(
        self, state: State, batch: Batch, limits: Limits, at: At, number: Tensor
    ) -> tuple[State, Tensor, Tensor]:
        """Make one step of all members that have not ended; `number` updates were made before.

        Returns also the terms of the loss before the step, [M, T], and what the strategy multiplies
        them by; without one, [M, 0].
        """
        running = state.ended == RUNNING
        objective, weighed = self._objective, None
        if self._weighting:
            objective = self._weighting.objective
            weighed = self._weighting.weigh(state.parameters, state.weights, batch, number)
            batch = weighed.batch
            at = replace(at, same_points=at.same_points & ~weighed.changed)
        parameters, optimizer, terms = self._optimizer.step(
            objective, state.parameters, state.optimizer, batch, at
        )
        parameters = self._objective.layout.changed(state.parameters, parameters)
        # The judged loss is that without the strategy's weights, which the next step changes.
        terms = weighed.terms if weighed else terms
        loss = tf.reduce_sum(terms, axis=1)
        finite = tf.math.is_finite(loss) & tf.reduce_all(tf.math.is_finite(parameters), axis=1)
        # With minibatches, the mean over an epoch is judged, when this step completes it.
        total = state.epoch_loss + loss
        complete = (number + 1) % self._epoch == 0 if self._epoch > 1 else tf.constant(True)
        judged = total / self._epoch if self._epoch > 1 else total
        due = running & complete
        better = due & (judged < state.best_loss) & (not self._holds_out)
        progress = due & (judged < state.reference_loss * (1 - limits.least_progress))
        reference_step = tf.where(progress, number, state.reference_step)
        ended = tf.zeros_like(state.ended)
        ended = tf.where(number - reference_step >= limits.patience, NO_PROGRESS, ended)
        report = self._optimizer.report(optimizer)
        # Where weights change, the next step may find what this one does not.
        if report is not None and not weighed:
            ended = tf.where(report.stuck, NO_DECREASE, ended)
        ended = tf.where(due & (judged <= limits.target_loss), TARGET_LOSS, ended)
        ended = tf.where(finite, ended, NOT_FINITE)
        goes = running & (ended == RUNNING)
        members = running.shape[0]

        def updated(after: Tensor, before: Tensor) -> Tensor:
            of_members = after.shape.rank > 0 and after.shape[0] == members
            return tf.where(_like(goes, after), after, before) if of_members else after

        weights = weighed.state if weighed else ()
        after = State(
            parameters=updated(parameters, state.parameters),
            optimizer=tf.nest.map_structure(updated, optimizer, state.optimizer),
            ended=tf.where(running, ended, state.ended),
            steps=state.steps + tf.cast(goes, tf.int32),
            best=tf.where(better[:, None], state.parameters, state.best),
            best_loss=tf.where(better, judged, state.best_loss),
            best_step=tf.where(better, state.steps, state.best_step),
            reference_loss=tf.where(progress, judged, state.reference_loss),
            reference_step=reference_step,
            epoch_loss=tf.where(complete, tf.zeros_like(total), total),
            weights=tf.nest.map_structure(updated, weights, state.weights),
            held_out=state.held_out,
        )
        return after, terms, weighed.shown if weighed else terms[:, :0]


def longest_chunk(step: int, log_every: int) -> int:
    """Return how many steps the next chunk may have at most, beginning after `step` updates."""
    first = math.ceil(step / log_every)
    return (first + _RECORDS_PER_CHUNK) * log_every - step


def compiles_collectives(communicator: Communicator) -> bool:
    """Whether collectives of this group work inside compiled functions here; warns if not."""
    if communicator.size == 1:
        return True
    try:
        bridge()
    except InputError as error:
        if communicator.rank == 0:
            warnings.warn(
                f"{error} Training continues with a loop that is not compiled as a whole, "
                f"which makes small steps several times slower.",
                RuntimeWarning,
                stacklevel=2,
            )
        return False
    return True


def _like(mask: Tensor, tensor: Tensor) -> Tensor:
    """Return a mask of the members [M] as [M, 1, …], with as many axes as the tensor."""
    return tf.reshape(mask, [-1] + [1] * (tensor.shape.rank - 1))


def _ceil_div(a: Tensor, b: Tensor) -> Tensor:
    return (a + b - 1) // b
