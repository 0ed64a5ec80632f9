"""One allreduce in every way in which it can run, compared on every rank with what it must be."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import one_line, rank_list
from sciml_par.info.facts import Facts
from sciml_par.parallel.collectives.allreduce import allreduce
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Sum

COUNT = 1000
"""How many float32 the allreduce has."""

REPETITIONS = 20
"""How often each path is timed, after a first call that is not."""

EAGER, GRAPH, COMPILED = "eager", "tf.function", "jit_compile"
CONTEXTS = (EAGER, GRAPH, COMPILED)

Collective = Callable[[Any], Any]
"""Takes a tensor and returns the sum of the ranks' tensors."""


@dataclass(frozen=True)
class Path:
    """How tensors may travel.

    Attributes
    ----------
    name : by which transport, and from which memory.
    device : where TensorFlow has them.
    obstacle : why it cannot be tried; empty if it can.
    compiled_obstacle : why it cannot in functions compiled by XLA.
    """

    name: str
    device: str
    obstacle: str = ""
    compiled_obstacle: str = ""

    def obstacle_in(self, context: str) -> str:
        """Why it cannot be tried in `context`; empty if it can."""
        return self.obstacle or (self.compiled_obstacle if context == COMPILED else "")


@dataclass(frozen=True)
class Outcome:
    """How one path did in one context, the same on every rank.

    Attributes
    ----------
    path, context : what was tried.
    obstacle : why it was not tried after all; empty if it was.
    wrong : what went wrong on which rank.
    seconds : the median time until a result can be read, on the slowest rank; None if not tried.
    """

    path: str
    context: str
    obstacle: str = ""
    wrong: Mapping[int, str] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def tried(self) -> bool:
        """Whether it was tried."""
        return not self.obstacle

    @property
    def right(self) -> bool:
        """Whether it was tried and every rank got what it must get."""
        return self.tried and not self.wrong


def paths(facts: Facts) -> list[Path]:
    """How tensors may travel between these ranks, and what stands against it."""
    alone = "a collective of one rank moves nothing" if len(facts.ranks) == 1 else ""
    compiled = _obstacle_to_compiled(facts)
    no_nccl = alone or _obstacle_to_nccl(facts)
    found = [
        Path("MPI, host memory", "/CPU:0", alone, compiled),
        Path("NCCL, GPU memory", "/GPU:0", no_nccl, compiled),
    ]
    if no_nccl and not alone and all(rank.tensorflow_on_gpu for rank in facts.ranks):
        # What programs do here instead.
        lacking = facts.ranks_where(lambda rank: not rank.copies)
        no_copies = f"needs CuPy on {rank_list(lacking)}" if lacking else ""
        found.append(Path("MPI, GPU memory", "/GPU:0", "", compiled or no_copies))
    return found


def _obstacle_to_nccl(facts: Facts) -> str:
    if not facts.any_gpu:
        return "no rank has a GPU"
    blind = facts.ranks_where(lambda rank: not rank.tensorflow_on_gpu)
    no_gpu = f"TensorFlow finds no GPU on {rank_list(blind)}" if blind else ""
    return facts.transport_obstacle or no_gpu


def _obstacle_to_compiled(facts: Facts) -> str:
    reasons = facts.by_answer(lambda rank: rank.foreign_calls.obstacle)
    return "; ".join(f"{rank_list(r)}: {reason}" for reason, r in reasons.items() if reason)


def self_test(facts: Facts, communicator: Communicator) -> list[Outcome]:
    """Try every path in every context (collective)."""
    return [try_path(path, context, communicator) for path in paths(facts) for context in CONTEXTS]


def try_path(path: Path, context: str, communicator: Communicator) -> Outcome:
    """Try one path in one context, unless something stands against it (collective)."""
    obstacle = path.obstacle_in(context)
    if obstacle:
        return Outcome(path.name, context, obstacle)
    collective = in_context(
        context,
        partial(allreduce, op=Sum, communicator=communicator, device=path.device),
        path.device,
    )
    wrong, seconds = try_collective(collective, path.device, communicator)
    return Outcome(path.name, context, wrong=wrong, seconds=seconds)


def in_context(context: str, collective: Collective, device: str) -> Collective:
    """`collective` on `device` as it is, in a graph, or in a function compiled by XLA."""

    def on_device(x: Any) -> Any:
        with tf.device(device):
            return collective(x)

    if context == EAGER:
        return on_device
    # Not False: a plain graph shall be what users have who say nothing.
    compiled = True if context == COMPILED else None
    function = tf.function(on_device, jit_compile=compiled, autograph=False)

    def called_on_device(x: Any) -> Any:
        with tf.device(device):  # or XLA would compile it for a GPU, where there is one
            return function(x)

    return called_on_device


def try_collective(
    collective: Collective, device: str, communicator: Communicator
) -> tuple[dict[int, str], float]:
    """Sum over the ranks by `collective`, again and again (collective)."""
    complaint, times = "", []
    try:
        xs = [_tensor(addend(communicator.rank, k), device) for k in range(1 + REPETITIONS)]
        ys = []
        for x in xs:
            start = time.perf_counter()
            y = collective(x)
            np.asarray(y)  # waits until it is there
            times.append(time.perf_counter() - start)
            ys.append(y)
        complaint = _first_complaint(ys, communicator.size)
    except Exception as error:  # a report of what is broken must survive it
        complaint = f"failed with {type(error).__name__}: {one_line(error)}"
    everyone = communicator.allgather_object((complaint, statistics.median(times[1:] or [0.0])))
    wrong = {rank: said for rank, (said, _) in enumerate(everyone) if said}
    return wrong, max(seconds for _, seconds in everyone)


def _tensor(values: np.ndarray, device: str) -> Any:
    with tf.device(device):
        return tf.constant(values)


def _first_complaint(ys: list[Any], size: int) -> str:
    # Looked at behind the last call, when none may have written into the result of another, and
    # not between calls, where ranks would come late to the next.
    complaints = (compare(np.asarray(y), total(size, k)) for k, y in enumerate(ys))
    return next(filter(None, complaints), "")


def addend(rank: int, repetition: int) -> np.ndarray:
    """x_i = r² + i + k, [COUNT]: another number on every rank, at every place, in every call."""
    return (rank**2 + repetition + np.arange(COUNT)).astype(np.float32)


def total(size: int, repetition: int) -> np.ndarray:
    """Σ_r x of `addend`, [COUNT]: whole numbers, so there is no rounding below P = 360."""
    addends = [addend(rank, repetition) for rank in range(size)]
    return np.asarray(np.sum(addends, axis=0, dtype=np.float64), np.float32)


def compare(got: np.ndarray, due: np.ndarray) -> str:
    """What is wrong with a result; empty if nothing."""
    if got.shape != due.shape:
        return f"got the shape {got.shape} where {due.shape} is due"
    # Beyond whole numbers that float32 holds, the order of the additions shows.
    where = np.flatnonzero(~np.isclose(got, due, rtol=1e-5, atol=0.0))
    if not where.size:
        return ""
    first = where[0]
    return (
        f"got {got[first]:.9g} where {due[first]:.9g} is due, at place {first}, "
        f"and is wrong at {where.size} of {due.size} places"
    )
