"""What optimizers choose by the size of a training and by the memory that there is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import local_size
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.training.loss.window_jacobian import WindowBand
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.phases import Phase

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def for_sizes(
    phases: Sequence[Phase], stacks: Sequence[Stack], group: Communicator, everyone: Communicator
) -> tuple[tuple[Phase, ...], list[str]]:
    """Return the phases with optimizers that fit, and what there is to say of them (collective).

    The largest stack decides, on the rank that has least memory and most points; all ranks of a
    group decide alike. An optimizer is asked if it has ``for_size``, as `LevenbergMarquardt`.
    """
    asked = [hasattr(phase.optimizer, "for_size") for phase in phases]
    # Where programs run on a GPU, they take its memory, and there is no choice yet.
    if not any(asked) or has_gpus():
        return tuple(phases), []
    there = free_memory()
    share = None if there is None else there // local_size()
    everywhere = group.allgather_object((share, max(map(_rows, stacks), default=0)))
    known = [memory for memory, _ in everywhere if memory is not None]
    memory, rows = min(known, default=None), max(rows for _, rows in everywhere)
    largest = max(stacks, key=lambda stack: stack.layout.size * len(stack.setups), default=None)
    sentences: list[str] = []

    def fitting(phase: Phase) -> Phase:
        if largest is None or not hasattr(phase.optimizer, "for_size"):
            return phase
        optimizer, sentence = phase.optimizer.for_size(
            largest.layout.size,
            rows,
            group.size,
            memory,
            members=len(largest.setups),
            band=WindowBand.of(largest.problem, largest.network, largest.layout),
        )
        sentences.extend([sentence] if sentence else [])
        return replace(phase, optimizer=optimizer)

    return everyone.attempt(lambda: tuple(map(fitting, phases))), sentences


def _rows(stack: Stack) -> int:
    """About as many residuals as a member has on this rank in a step.

    That is as if each point had as many equations as the problem has outputs.
    """
    feed = stack.setups[0].feed
    points = sum(len(arrays[0]) for arrays in feed.arrays)
    return -(-points * stack.problem.outputs // feed.steps_per_epoch)


def free_memory(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int | None:
    """Return the bytes that can be taken on this machine without swapping; None if unknown."""
    found = [each for each in (_available(meminfo), _left_in_group(group)) if each is not None]
    return min(found, default=None)


def _available(meminfo: Path) -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s*(\d+)", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _left_in_group(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None
