"""The outcome of the training of a member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.arguments.settings import BEST, Settings
from sciml_par.training.loop.course import Course
from sciml_par.training.loop.loop import NO_DECREASE, NO_PROGRESS, NOT_FINITE, RUNNING, TARGET_LOSS

FloatArray = npt.NDArray[np.float64]

ALL_STEPS = "all steps"
_REASONS = {
    RUNNING: ALL_STEPS,
    TARGET_LOSS: "target loss",
    NO_PROGRESS: "no progress",
    NOT_FINITE: "not finite",
    NO_DECREASE: "no further decrease",
}


@dataclass(frozen=True)
class Outcome:
    """One member at the end.

    Attributes
    ----------
    best, last : the weights with the least loss, and those after the last update, [p].
    kept : those of the two that the result keeps.
    best_loss, loss : of these; they have had `best_step` and `steps` updates.
    ended : why there were no more: a text of `_REASONS`, or the reason that stopped all members.
    loss_steps : at which the loss was recorded, [s].
    terms, unknowns : of the loss there, [s, T], and the parameters of unknowns, [s, q].
    weights : what a strategy multiplied the terms by there, [s, T], or [s, 0] without one.
    """

    best: npt.NDArray[Any]
    last: npt.NDArray[Any]
    kept: npt.NDArray[Any]
    best_loss: float
    loss: float
    best_step: int
    steps: int
    ended: str
    loss_steps: npt.NDArray[np.int64]
    terms: FloatArray
    unknowns: FloatArray
    weights: FloatArray

    @property
    def sound(self) -> bool:
        """Whether some weights had a finite loss."""
        return bool(np.isfinite(self.best_loss))


def outcomes_of(course: Course, settings: Settings) -> list[Outcome]:
    """Return the outcomes of the members of a course (collective in its group)."""
    state, last = course.state, course.final_parameters()
    best = state.best
    terms = course.terms_of(last)
    loss = terms.sum(axis=1)
    if course.stack.feed.steps_per_epoch > 1:
        # What was judged on the way is the mean of an epoch, during which the weights changed.
        best_loss = course.terms_of(best).sum(axis=1)
    else:
        best_loss = state.best_loss.numpy().astype(np.float64)
    bad = course.ended == NOT_FINITE
    better = (loss < best_loss) & ~bad & (not tf.is_tensor(state.held_out))
    best = tf.where(better[:, None], last, best).numpy()
    best_loss = np.where(better, loss, best_loss)
    best_step = np.where(better, course.updates, state.best_step.numpy())
    found = []
    final = np.concatenate([terms, last.numpy()[:, course.stack.layout.size_of_network :]], axis=1)
    count = terms.shape[1]
    for j, why in enumerate(course.ended):
        steps, history, weights = _history(course, j, None if bad[j] else final[j])
        found.append(
            Outcome(
                best=best[j],
                last=last.numpy()[j],
                kept=best[j] if settings.keep == BEST else last.numpy()[j],
                best_loss=float(best_loss[j]),
                loss=float(loss[j]),
                best_step=int(best_step[j]),
                steps=int(course.updates[j]),
                ended=_reason(course, int(why)),
                loss_steps=steps,
                terms=history[:, :count],
                unknowns=history[:, count:],
                weights=weights,
            )
        )
    return found


def _reason(course: Course, why: int) -> str:
    if why == RUNNING and course.stopped is not None:
        return course.stopped
    return _REASONS[why]


def _history(
    course: Course, j: int, final: FloatArray | None
) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Return the records of member j up to its end, and of its last weights, if finite.

    They are steps, terms with parameters of unknowns, and the weights of a strategy.
    """
    steps, *of_members = course.recorded
    records, weights = (each[:, j] for each in of_members)
    end = course.last_step_of(j)
    kept = (steps < end + (final is None)) & np.isfinite(records).all(axis=1)
    kept &= course.recording.kept(steps, end)
    if final is None and kept.any():
        return steps[kept], records[kept], weights[kept]
    last = np.full(records.shape[1], np.nan) if final is None else final
    latest = weights[kept][-1:] if kept.any() else np.ones((1, weights.shape[1]))
    return (
        np.append(steps[kept], end),
        np.concatenate([records[kept], last[None]]),
        np.concatenate([weights[kept], latest]),
    )
