"""Stacked members on their way through the phases of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.arguments.settings import Records
from sciml_par.training.loop.divided_loop import DividedLoop
from sciml_par.training.loop.loop import (
    NO_DECREASE,
    NO_PROGRESS,
    NOT_FINITE,
    RUNNING,
    TARGET_LOSS,
    Chunk,
    Limits,
    Loop,
    Span,
    State,
    longest_chunk,
)
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.phases import Phase
from sciml_par.training.points.feed import DividedFeed, Feed

FloatArray = npt.NDArray[np.float64]
Loops = Sequence[Loop | DividedLoop]


_NOT_COMPILED = (
    "Raised while the training loop was compiled. XLA compiles residuals of TensorFlow operations "
    "whose shapes do not depend on values: no tf.print, tf.py_function, tf.boolean_mask or "
    "tf.unique, and in place of tf.hessians the operator hessian(u, x); a tf.while_loop whose "
    "gradient is taken needs maximum_iterations. What a residual is during the training, a "
    "callback can print."
)


_OF_THE_PHASE = (NO_PROGRESS, NO_DECREASE)
"""Why a member has ended that goes on in the next phase."""

_BY_STOPS = (TARGET_LOSS, NO_PROGRESS)
"""Why a member has ended that goes on with other stops."""

_BY_THE_LOSS = (TARGET_LOSS, NO_PROGRESS, NO_DECREASE)
"""Why a member has ended that goes on with another loss."""


class NotStackableError(Exception):
    """An operation of a residual has no form for several members at once."""


@dataclass
class Position:
    """The position of a course, in addition to the tensors of its `State`.

    A member that still runs has made `step` − `behind` updates.
    """

    phase: int
    phase_start: int  # after how many steps of the loop the phase began
    step: int  # how many steps the loop has made
    behind: npt.NDArray[np.int64]  # that each member has missed because it had ended, [M]


class Course:
    """How far stacked members have come. What says so is collective in the stack's group."""

    def __init__(
        self,
        stack: Stack,
        phases: Sequence[Phase],
        loops: Loops,
        feed: Feed | DividedFeed,
        *,
        limits: Limits,
        log_every: int | None,
    ) -> None:
        self.stack, self.phases = stack, tuple(phases)
        self.apart = False  # whether each member is a separate computation
        self._feed, self._loops, self._limits = feed, tuple(loops), limits
        self.recording = Records(log_every)
        self._rate_factors = [
            tf.constant((stack.rate_factor * phase.rate).astype(stack.parameters.dtype))
            for phase in phases
        ]
        self.state = self._loops[0].start(tf.constant(stack.parameters))
        members = len(stack.numbers)
        self.position = Position(0, 0, 0, np.zeros(members, np.int64))
        self.steps: list[npt.NDArray[np.int64]] = []  # after which there are records
        self.records: list[FloatArray] = []  # terms of the loss and unknowns then, [M, T + q]
        self.weights: list[FloatArray] = []  # of the terms then, [M, T] or [M, 0]
        self.terms = np.full([members, len(stack.terms)], np.nan)  # before the last step
        self.seconds_compile = self.seconds_train = 0.0
        self.times_brought_together, self.largest_drift = 0, 0.0  # see `bring_together`
        self.stopped: str | None = None  # why all members were stopped from outside
        self.needs_preparation = True  # the phase's loop is not compiled for this course

    @property
    def step(self) -> int:
        """How many steps the loop has made."""
        return self.position.step

    @property
    def unknowns(self) -> FloatArray:
        """The parameters of unknowns after the last step, [M, q]."""
        layout = self.stack.layout
        found = self.state.parameters[:, layout.size_of_network :].numpy()
        return np.asarray(found, np.float64)

    @property
    def steps_asked(self) -> int:
        """The steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def recorded(self) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
        """Steps [s], records [s, M, T + q], and weights of terms, [s, M, T] or [s, M, 0]."""
        members, terms = self.terms.shape
        steps = np.concatenate([np.empty(0, np.int64), *self.steps])
        none = np.empty((0, members, terms + self.stack.layout.size_of_unknowns))
        weights = [each for each in self.weights if each.size]
        return (
            steps,
            np.concatenate([none, *self.records]),
            np.concatenate(weights) if weights else np.empty((len(steps), members, 0)),
        )

    @property
    def first_loss(self) -> float:
        """The first loss that was recorded, of the first member."""
        first = next(each[0, 0] for each in self.records if len(each))
        return float(first[: self.terms.shape[1]].sum())

    @property
    def ended(self) -> npt.NDArray[np.int32]:
        """Why each member has ended, [M]; see `State`."""
        return np.asarray(self.state.ended.numpy())

    @property
    def finished(self) -> bool:
        """Whether no member makes any more steps."""
        return self.stopped is not None or self._phase_over()

    @property
    def updates(self) -> npt.NDArray[np.int64]:
        """How many updates each member has had, [M]."""
        return self.state.steps.numpy().astype(np.int64)

    @property
    def measures(self) -> dict[str, FloatArray]:
        """What the optimizer tells of its last step, and the last recorded weights: [M] each.

        An optimizer that has not made a step yet tells nothing.
        """
        optimizer = self.phases[self.position.phase].optimizer
        report = optimizer.report(self.state.optimizer)
        begun = self.step > self.position.phase_start
        found = report.measures if report is not None and begun else {}
        measures = {name: value.numpy().astype(np.float64) for name, value in found.items()}
        last = next((rows[-1] for rows in reversed(self.weights) if len(rows)), None)
        if last is None or not last.shape[1]:
            return measures
        names = (f"weight {term.name}" for term in self.stack.terms)
        # A term that no strategy has changed is of no interest.
        weights = zip(names, last.T, strict=True)
        return measures | {name: each for name, each in weights if (each != 1.0).any()}

    def stop(self, reason: str) -> None:
        """Make no more steps; a course that is done stays as it is."""
        if not self.finished:
            self.stopped = reason

    def take_apart(self, loops: Loops, feed: DividedFeed) -> None:
        """Make each member a separate computation, from where they stand."""
        self._loops, self._feed, self.apart = tuple(loops), feed, True

    @property
    def can_go_on(self) -> bool:
        """Whether all members run, or would with another loss."""
        at = self.position
        steps_left = sum(phase.steps for phase in self.phases[at.phase :])
        steps_left -= at.step - at.phase_start
        goes = np.isin(self.ended, (RUNNING, *_BY_THE_LOSS)).all()
        return self.stopped is None and steps_left > 0 and bool(goes)

    def move_to(self, other: Course) -> bool:
        """Continue at the points of another course of this member; not if its loss is infinite.

        The weights are the initial ones where these have the smaller loss there. A method of second
        order begins anew, since it holds values of the loss.
        """
        other.position = self.position
        starts = [self.state.parameters, tf.constant(other.stack.parameters)]
        losses = [other.terms_here(theta).sum() for theta in starts]
        if not np.isfinite(losses).all():
            return False
        theta = starts[int(np.argmin(losses))]
        self._reopen(_BY_THE_LOSS)
        self.stack, self.phases = other.stack, other.phases
        self._feed, self._loops = other._feed, other._loops
        self.needs_preparation = other.needs_preparation
        self.seconds_compile += other.seconds_compile
        moments = self.state.optimizer
        state = self._loops[self.position.phase].start(theta, before=self.state)
        if not self.phases[self.position.phase].optimizer.second_order:
            state = state._replace(optimizer=moments)
        self.state = _judged_anew(state._replace(parameters=theta))
        return True

    def restore(self, position: Position, leaves: Sequence[Any]) -> bool:
        """Put the course to where one of the same stack was."""
        like = self._loops[position.phase].start(self.state.parameters)
        expected = [(tuple(leaf.shape), leaf.dtype) for leaf in tf.nest.flatten(like)]
        state = [tf.constant(leaf) for leaf in leaves]
        if expected != [(tuple(leaf.shape), leaf.dtype) for leaf in state]:
            return False
        self.position = position
        self.state = tf.nest.pack_sequence_as(like, state)
        return True

    def go_on(self, *, reopen: bool) -> None:
        """Continue from there."""
        if reopen:
            self._reopen(_BY_STOPS)
        if self._has_next_phase():
            self._next_phase()

    @property
    def adaptive_points(self) -> Any:
        """The source of points that depend on more than the step; None if there is none."""
        return self._feed.adaptive

    def last_step_of(self, member: int) -> int:
        """Return the number of the loop's step at which this member, of M, had its last update."""
        return int(self.updates[member] + self.position.behind[member])

    def longest_chunk(self) -> int:
        """Return how many steps the next chunk may have at most."""
        at = self.position
        return min(
            at.phase_start + self.phases[at.phase].steps - at.step,
            longest_chunk(at.step, self.recording.spacing(at.step)),
            self.recording.longest_chunk(at.step),
            self._feed.longest_chunk(at.step),
        )

    def prepare(self) -> float:
        """Compile the phase's loop by a discarded step, and return the seconds."""
        chunk = self._try(self.state)
        self.terms = chunk.terms
        return chunk.seconds

    def terms_here(self, parameters: Any = None) -> FloatArray:
        """Return the terms of the loss at the weights of now, or at θ: [M, p], as [M, T].

        They are those of the batch of the next step. A fresh state of the optimizer keeps it from
        taking values that it knows from the step before.
        """
        theta = self.state.parameters if parameters is None else parameters
        return self._try(self._loops[self.position.phase].start(theta)).terms

    def _try(self, state: State) -> Chunk:
        """Make a step that is thrown away."""
        try:
            chunk = self._advance(state, 1)
        except Exception as error:
            if len(self.stack.numbers) == 1 or self.apart:
                if not isinstance(error, InputError):
                    error.add_note(_NOT_COMPILED)
                raise
            raise NotStackableError from error
        if self.needs_preparation:
            self.needs_preparation = False
            self.seconds_compile += chunk.seconds
        return chunk

    def advance(self, count: int) -> float:
        """Do `count` steps, or fewer if all members end, and return the seconds."""
        self._adapt_points()
        chunk = self._advance(self.state, count)
        self.state, self.terms = chunk.state, chunk.terms
        self.position.step += chunk.done
        self.steps.append(chunk.steps)
        self.records.append(chunk.records)
        self.weights.append(chunk.weights)
        self.seconds_train += chunk.seconds
        if self._has_next_phase():
            self._next_phase()
        return chunk.seconds

    def _adapt_points(self) -> None:
        """Let the points follow the residual, where it is time."""
        feed, at, state = self._feed, self.position, self.state
        source, loop = feed.adaptive, self._loops[at.phase]
        if source is None or not source.due(at.step):
            return
        assert not isinstance(feed, DividedFeed) and isinstance(loop, Loop)

        def squares(arrays: Sequence[Any]) -> FloatArray:
            batch = feed.candidates(arrays, source.dtype)
            return loop.squares_at(state.parameters, batch, source.counts)

        source.adapt(at.step, squares)
        self.state = _judged_anew(state)

    def final_parameters(self) -> Any:
        """Return θ: [M, p] at the end; the best in place of those whose loss is not finite."""
        last = self._loops[self.position.phase].finish(self.state).parameters
        bad = tf.equal(self.state.ended, NOT_FINITE)[:, None]
        return tf.where(bad, self.state.best, last)

    def terms_of(self, parameters: Any) -> FloatArray:
        """Return the terms of the loss at θ: [M, p] on all points, [M, T]."""
        if self._feed.steps_per_epoch > 1:
            loop = self._loops[self.position.phase]
            return loop.terms_at(parameters, self._feed.whole(self.step))
        # The loop has been compiled already, and computes the loss before it makes a step.
        running = tf.fill(self.state.ended.shape, RUNNING)
        begin = self.state._replace(parameters=parameters, ended=running)
        return self._advance(begin, 1).terms

    def _advance(self, state: State, count: int) -> Any:
        at = self.position
        data, factors = self._feed.chunk(at.step), self._rate_factors[at.phase]
        span = Span(at.step, at.phase_start, count, self.recording.spacing(at.step))
        return self._loops[at.phase].advance(state, data, self._limits, factors, span)

    def _runs(self) -> bool:
        return bool(np.any(self.ended == RUNNING))

    def _phase_over(self) -> bool:
        at = self.position
        whole = at.step - at.phase_start >= self.phases[at.phase].steps
        return whole or not self._runs()

    def _has_next_phase(self) -> bool:
        more = self.position.phase + 1 < len(self.phases)
        going = np.isin(self.ended, (RUNNING, *_OF_THE_PHASE)).any()
        return more and self._phase_over() and bool(going)

    def _reopen(self, reasons: Sequence[int]) -> None:
        """Let members run that have ended for these reasons."""
        at, ended = self.position, self.ended
        again = np.isin(ended, reasons)
        if again.any() and not self._runs():
            # The step at which the last of them ended was no update: it is made again.
            at.step = max(self.last_step_of(int(j)) for j in np.flatnonzero(again))
            kept = [steps < at.step for steps in self.steps]
            self.records = [r[k] for r, k in zip(self.records, kept, strict=True)]
            self.weights = [w[k] for w, k in zip(self.weights, kept, strict=True)]
            self.steps = [s[k] for s, k in zip(self.steps, kept, strict=True)]
        at.behind = np.where(again, at.step - self.updates, at.behind)
        reference = np.where(again, at.step, self.state.reference_step.numpy())
        self.state = self.state._replace(
            ended=tf.constant(np.where(again, RUNNING, ended), tf.int32),
            reference_step=tf.constant(reference, tf.int32),
        )

    def _next_phase(self) -> None:
        at = self.position
        ended = np.where(np.isin(self.ended, _OF_THE_PHASE), RUNNING, self.ended)
        state = self._loops[at.phase].finish(self.state)
        state = state._replace(ended=tf.constant(ended, tf.int32))
        self.position = Position(at.phase + 1, at.step, at.step, at.step - self.updates)
        begin = self._loops[at.phase + 1].start(state.parameters, before=state)
        reference = tf.fill(begin.reference_step.shape, tf.constant(at.step, tf.int32))
        self.state = begin._replace(reference_step=reference)
        self.needs_preparation = True


def _judged_anew(state: State) -> State:
    """Return a state in which what is best begins anew, since losses at other points differ."""
    none = tf.fill(state.best_loss.shape, tf.constant(np.inf, state.best_loss.dtype))
    held_out = none if tf.is_tensor(state.held_out) else ()
    return state._replace(best_loss=none, reference_loss=none, held_out=held_out)
