"""Choose the weights of a training by observations that are held out, and end it by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknown_arguments import with_part
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.loop import RUNNING
from sciml_par.training.loop.stops import NoProgress
from sciml_par.training.loss.objective import field_of
from sciml_par.training.members.stack import Stack
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.watcher import Watcher

FloatArray = npt.NDArray[np.float64]

ENDED = "held-out error"
_SPACING = 20
"""The loss is computed after each 1/20 more steps, whatever the clock says."""
_PATIENCE, _SHARE = 4, 0.1
"""How many times the steps of the best weights a training waits, and at least this share of all."""
_LEAST, _LEAST_OF_SECOND_ORDER = 1_000, 100
"""How many steps it waits at least, since the loss of Adam may stand still for so long at first."""


class HoldoutWatcher(Watcher):
    """Keep the weights with the least loss at the held-out values, and end when it stays above.

    Equations and conditions without held-out values count as in the training.

    stop : how long to wait for a smaller loss; by default 4 times the steps that led to the least,
        a tenth of all steps, and 1,000 of a method of first order or 100 of second.
    """

    def __init__(self, stop: NoProgress | None, group: Communicator) -> None:
        self._stop, self._group = stop, group
        self._judged: tuple[int, int] | None = None
        self._traced: dict[Any, Any] = {}

    def longest_chunk(self, step: int) -> int:
        return _next_after(step) - step

    def met(self, meeting: Meeting) -> str | None:
        course, at = meeting.course, (meeting.worked, meeting.course.step)
        regular = _next_after(max(0, course.step - 1)) == course.step or course.step == 0
        due = course.stack.problem.holds_out and (regular or course.finished)
        if not due or self._judged == at or course.needs_preparation:
            return None
        self._judged = at
        self._keep_best(course)
        best = course.state.best_step.numpy()
        second = course.phases[course.position.phase].optimizer.second_order
        least = max(_LEAST_OF_SECOND_ORDER if second else _LEAST, _SHARE * course.steps_asked)
        patience: Any = np.maximum(_PATIENCE * best, least)
        if self._stop is not None:
            patience = self._stop.steps
        waited = (course.updates - best >= patience) | (course.ended != RUNNING)
        if course.finished or not waited.all():
            return None
        course.stop(ENDED)
        return (
            f"step {course.step:,}: the error at held-out values has not fallen since step "
            f"{max(best):,}"
        )

    def _keep_best(self, course: Course) -> None:
        """Keep the present weights of the members that have the least loss (collective)."""
        state, theta, stack = course.state, course.state.parameters, course.stack
        terms = course.terms_here()
        mine = [
            _judged(setup.problem, self._mean_squares(stack, setup.problem)(row), trained)
            for setup, row, trained in zip(stack.setups, tf.unstack(theta), terms, strict=True)
        ]
        # One decision, although ranks may round differently.
        loss = np.asarray(self._group.broadcast_object(mine))
        better = tf.constant(loss < state.held_out.numpy())
        course.state = state._replace(
            best=tf.where(better[:, None], theta, state.best),
            best_loss=tf.where(
                better, tf.constant(terms.sum(axis=1), theta.dtype), state.best_loss
            ),
            best_step=tf.where(better, state.steps, state.best_step),
            held_out=tf.where(better, tf.constant(loss, theta.dtype), state.held_out),
        )

    def _mean_squares(self, stack: Stack, problem: Problem) -> Callable[[Any], dict[str, Any]]:
        """Return `mean_squares` of a problem, traced once."""
        key = id(stack), id(problem)
        if key not in self._traced:
            self._traced[key] = tf.function(partial(mean_squares, stack, problem), autograph=False)
        return self._traced[key]


def _next_after(step: int) -> int:
    """Return the first step after this one at which the loss is computed."""
    at = 0
    while at <= step:
        at += max(1, at // _SPACING)
    return at


def _judged(problem: Problem, means: Mapping[str, Any], trained: FloatArray) -> float:
    """Return the loss in which held-out values replace those that are trained on (local)."""
    pairs = zip(problem.terms, trained, strict=True)
    return sum(t.weight * float(means[t.name]) if t.name in means else value for t, value in pairs)


def mean_squares(stack: Stack, problem: Problem, theta: Any) -> dict[str, Any]:
    """Return (1/N) Σ_i |r(x_i)|² over the held-out values of each term, by name, at θ: [p]."""
    u = partial(field_of, problem, stack.network)(stack.layout.unflatten(theta))
    found = {}
    for condition, term in problem.terms_of_conditions:
        if condition.held_out is not None:
            given = condition.held_out.points(problem.domain, 0)
            arrays = [tf.constant(array, theta.dtype) for array in given]
            squares = tf.square(with_part(term.function, condition.held_out)(u, *arrays))
            found[term.name] = tf.reduce_mean(tf.reduce_sum(squares, axis=1))
    return found
