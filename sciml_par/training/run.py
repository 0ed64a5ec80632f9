"""Drive the compiled loop from the first step to the last, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import TrainingError
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.wording import rank_list
from sciml_par.training.loop import Chunk, Loop, State
from sciml_par.training.progress import Reporter

_SECONDS_PER_CHUNK = 0.5
_FIRST_CHUNK = 100


@dataclass(frozen=True)
class Run:
    """One model's training.

    Attributes
    ----------
    parameters : after the last update, [p].
    loss : of these parameters.
    loss_steps, losses : the loss after loss_steps[k] updates was losses[k].
    seconds_compile, seconds_train : on this rank.
    """

    parameters: npt.NDArray[Any]
    loss: float
    loss_steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float64]
    seconds_compile: float
    seconds_train: float


def run(
    loop: Loop,
    start: State,
    steps: int,
    *,
    world: Communicator,
    reporter: Reporter,
    before: int = 0,
) -> Run:
    """Train one model on this rank while the other ranks train theirs, or the same (collective).

    Parameters
    ----------
    loop, start : what to run, from where.
    steps : updates to make.
    world : the ranks that meet between chunks.
    before : steps that earlier models of this rank have made, for the report.

    Raises
    ------
    TrainingError
        A loss or gradient was not finite on some rank; on all ranks.
    """
    # The first call compiles. It brings the loss before the first update; its step is thrown away.
    first = loop.advance(start, 1)
    _meet(world, first)
    reporter.ready()
    state, count, seconds = start, _FIRST_CHUNK, 0.0
    recorded: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    while state.step < steps:
        count = min(count, steps - state.step, loop.longest_chunk(state.step))
        chunk = loop.advance(state, count)
        state = chunk.state
        recorded.append((chunk.steps, chunk.losses))
        seconds += chunk.seconds
        met = _meet(world, chunk)
        reporter.update(before + state.step, [each.loss for each in met])
        # All ranks know all durations, so they agree on the next count.
        slowest = max(each.seconds for each in met)
        count = max(1, int(count * _SECONDS_PER_CHUNK / max(slowest, 1e-6)))
    last = loop.advance(state, 1)
    _meet(world, last)
    recorded.append((np.array([state.step]), np.array([last.loss])))
    return Run(
        parameters=state.parameters.numpy(),
        loss=last.loss,
        loss_steps=np.concatenate([each for each, _ in recorded]),
        losses=np.concatenate([each for _, each in recorded]),
        seconds_compile=first.seconds,
        seconds_train=seconds,
    )


@dataclass(frozen=True)
class _Status:
    finite: bool
    step: int
    loss: float
    seconds: float


def _meet(world: Communicator, chunk: Chunk) -> Sequence[_Status]:
    """How every rank's last chunk went, or `TrainingError` on all of them (collective)."""
    mine = _Status(chunk.finite, chunk.state.step, chunk.loss, chunk.seconds)
    everyone = world.allgather_object(mine)
    broken = [rank for rank, status in enumerate(everyone) if not status.finite]
    if not broken:
        return everyone
    first = everyone[broken[0]]
    raise TrainingError(
        f"the loss or its gradient is no longer finite on {rank_list(broken)} of {world.size}: "
        f"the update after step {first.step} cannot be made (loss {first.loss}). Usual causes: a "
        f"learning rate that is too large, or a residual that divides by zero or takes a root or "
        f"logarithm of what training may make negative."
    )
