"""Drive the compiled loop from the first step to the last, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._text import rank_list
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.course import Course
from sciml_par.training.loop import Loop, State
from sciml_par.training.progress import Reporter
from sciml_par.training.replicas import bring_together, digest_of

_SECONDS_PER_CHUNK = 0.5
_FIRST_CHUNK = 100


@dataclass(frozen=True)
class Run:
    """One model's training.

    Attributes
    ----------
    parameters : after the last update, [p].
    steps : how many updates they have had.
    loss : of these parameters.
    loss_steps, losses : the loss after loss_steps[k] updates was losses[k].
    finite : whether it came to its end; else it ended where its loss was not finite any more.
    seconds_compile, seconds_train : on this rank.
    times_brought_together, largest_drift : of the replicas; see `bring_together`.
    failure : why no rank has come to its end, or None if one has; the same on all ranks.
    """

    parameters: npt.NDArray[Any]
    steps: int
    loss: float
    loss_steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float64]
    finite: bool
    seconds_compile: float
    seconds_train: float
    times_brought_together: int
    largest_drift: float
    failure: str | None


def run(
    loop: Loop,
    start: State,
    steps: int,
    *,
    group: Communicator,
    world: Communicator,
    reporter: Reporter,
    before: int = 0,
) -> Run:
    """Train one model on this rank while the other ranks train theirs, or the same (collective).

    A model whose loss is not finite any more ends; its rank goes on to meet the others.

    Parameters
    ----------
    loop, start : what to run, from where.
    steps : updates to make.
    group : the ranks that train this model together.
    world : the ranks that meet between chunks.
    before : steps that earlier models of this rank have made, for the report.

    Raises
    ------
    TrainingError
        The replicas of a model have parted; on all ranks of its group.
    """
    course = Course(loop, start)
    meeting = _Meeting(course, group, world, reporter)
    seconds_compile = course.compile()
    meeting.hold(seconds_compile)
    reporter.ready()
    done, count = 0, _FIRST_CHUNK
    while done < steps and meeting.anyone_goes_on:
        count = min(count, steps - done, loop.longest_chunk(done))
        slowest = meeting.hold(course.advance(count))
        done += count
        if meeting.anyone_goes_on:
            reporter.update(before + done, meeting.losses)
        # All ranks know all durations, so they agree on the next count.
        count = max(1, int(count * _SECONDS_PER_CHUNK / max(slowest, 1e-6)))
    course.finish()
    meeting.hold(0.0)
    loss_steps, losses = course.history()
    return Run(
        parameters=course.state.parameters.numpy(),
        steps=course.state.step,
        loss=course.loss,
        loss_steps=loss_steps,
        losses=losses,
        finite=course.finite,
        seconds_compile=seconds_compile,
        seconds_train=course.seconds,
        times_brought_together=meeting.times_brought_together,
        largest_drift=meeting.largest_drift,
        failure=None if meeting.anyone_goes_on else meeting.failure(),
    )


@dataclass(frozen=True)
class _Status:
    failed_at: int | None
    loss: float
    seconds: float
    digest: bytes


class _Meeting:
    """Where the ranks tell each other, between chunks, how their models do."""

    def __init__(
        self, course: Course, group: Communicator, world: Communicator, reporter: Reporter
    ) -> None:
        self._course, self._group, self._world = course, group, world
        self._reporter = reporter
        self._everyone: Sequence[_Status] = []
        self.times_brought_together = 0
        self.largest_drift = 0.0

    @property
    def anyone_goes_on(self) -> bool:
        """Whether some rank's model has not ended."""
        return any(status.failed_at is None for status in self._everyone)

    @property
    def losses(self) -> list[float]:
        """Of the models that go on."""
        return [status.loss for status in self._everyone if status.failed_at is None]

    def hold(self, seconds: float) -> float:
        """Exchange how the last chunk went, and return the longest duration (collective)."""
        course = self._course
        mine = _Status(course.failed_at, course.loss, seconds, digest_of(course.state))
        ended_before = set(self._ended())
        self._everyone = self._world.allgather_object(mine)
        ended = [rank for rank in self._ended() if rank not in ended_before]
        if ended and self.anyone_goes_on:
            self._reporter.note(
                f"{rank_list(ended)} of {self._world.size}: the loss is no longer finite; the "
                f"model{'s' * (len(ended) > 1)} in training there end{'s' * (len(ended) == 1)}, "
                f"the others go on"
            )
        self._compare_replicas()
        return max(status.seconds for status in self._everyone)

    def failure(self) -> str:
        """What to say where every model has ended."""
        ended = self._ended()
        first = self._everyone[ended[0]]
        return (
            f"the loss or its gradient is no longer finite on {rank_list(ended)} of "
            f"{self._world.size}: the update after step {first.failed_at} cannot be made. Usual "
            f"causes: a learning rate that is too large, or a residual that divides by zero or "
            f"takes a root or logarithm of what training may make negative."
        )

    def _ended(self) -> list[int]:
        return [r for r, status in enumerate(self._everyone) if status.failed_at is not None]

    def _compare_replicas(self) -> None:
        digests = {self._everyone[rank].digest for rank in self._group.world_ranks}
        if len(digests) > 1:
            self._course.state, drift = bring_together(self._course.state, self._group)
            self.times_brought_together += 1
            self.largest_drift = max(self.largest_drift, drift)
