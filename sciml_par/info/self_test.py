"""The self-test: one allreduce in every way in which it can run, compared with its exact result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import one_line, rank_list, ranks_by
from sciml_par.info.facts import Facts
from sciml_par.parallel.collectives.one_tensor import allreduce
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Sum

COUNT = 1000
"""How many float32 are summed."""

REPETITIONS = 20
"""How many calls are timed, after a first call that is not."""

CONTEXTS = EAGER, GRAPH, COMPILED = "eager", "tf.function", "jit_compile"
_MPI, _NCCL, _MPI_FROM_GPU = "MPI, host memory", "NCCL, GPU memory", "MPI, GPU memory"
_DEVICES = {_MPI: "/CPU:0", _NCCL: "/GPU:0", _MPI_FROM_GPU: "/GPU:0"}

Collective = Callable[[Any], Any]


Outcome = dict[str, Any]
"""How one path did in one context: an entry of `self_test` in the JSON file.

`wrong` is {rank: fault}; `seconds` the median until a result can be read, on the slowest rank.
"""


def self_test(facts: Facts, communicator: Communicator) -> list[Outcome]:
    """Try every path in every context (collective)."""
    outcomes = []
    for path, context, obstacle in planned(facts):
        wrong: dict[int, str] = {}
        seconds, device = None, _DEVICES[path]
        if not obstacle:
            plain = partial(allreduce, op=Sum, communicator=communicator, device=device)
            collective = in_context(context, plain, device)
            wrong, seconds = try_collective(collective, device, communicator)
        which = {"path": path, "context": context, "obstacle": obstacle, "tried": not obstacle}
        right = not (obstacle or wrong)
        outcomes.append({**which, "wrong": wrong, "seconds": seconds, "right": right})
    return outcomes


def planned(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield path, context and the obstacle to a test of it, empty if there is none."""
    ranks = facts["ranks"]
    alone = "a collective of one rank moves nothing" if len(ranks) == 1 else ""
    calls = ranks_by(enumerate(rank["foreign_calls"]["obstacle"] for rank in ranks))
    no_calls = "; ".join(f"{rank_list(those)}: {text}" for text, those in calls.items() if text)
    no_nccl = alone or facts["transport_obstacle"]
    obstacles = {_MPI: (alone, no_calls), _NCCL: (no_nccl, no_calls)}
    if no_nccl and not alone and all(rank["tensorflow_on_gpu"] for rank in ranks):
        # Programs take this path here.
        lacking = ranks_by(enumerate(rank["copies"] for rank in ranks)).get(False)
        no_copies = f"needs CuPy on {rank_list(lacking)}" if lacking else ""
        obstacles[_MPI_FROM_GPU] = "", no_calls or no_copies
    for path, (in_any_context, in_compiled) in obstacles.items():
        for context in CONTEXTS:
            yield path, context, in_any_context or (in_compiled if context == COMPILED else "")


def in_context(context: str, collective: Collective, device: str) -> Collective:
    """Return `collective` on `device`: eager, in a graph, or compiled by XLA."""

    def placed(function: Collective) -> Collective:
        def on_device(x: Any) -> Any:
            with tf.device(device):  # outside as well: XLA would compile for a GPU if there is one
                return function(x)

        return on_device

    if context == EAGER:
        return placed(collective)
    # None instead of False: a plain graph as users have it who do not mention compilation.
    compiled = True if context == COMPILED else None
    return placed(tf.function(placed(collective), jit_compile=compiled, autograph=False))


def try_collective(
    collective: Collective, device: str, communicator: Communicator
) -> tuple[dict[int, str], float]:
    """Sum over the ranks repeatedly; return {rank: fault} and the time (collective)."""
    fault, times = "", [0.0]
    try:
        with tf.device(device):
            xs = [tf.constant(addend(communicator.rank, k)) for k in range(1 + REPETITIONS)]
        times, ys = [], []
        for x in xs:
            start = time.perf_counter()
            ys.append(collective(x))
            np.asarray(ys[-1])  # waits for the result
            times.append(time.perf_counter() - start)
        # After the last call, when none may have written into the result of another; checks
        # between the calls would make ranks late.
        faults = (compare(np.asarray(y), total(communicator.size, k)) for k, y in enumerate(ys))
        fault = next(filter(None, faults), "")
    except Exception as error:  # the report must survive whatever is broken
        fault = f"failed with {type(error).__name__}: {one_line(error)}"
    everyone = communicator.allgather_object((fault, statistics.median(times[1:] or [0.0])))
    wrong = {rank: fault for rank, (fault, _) in enumerate(everyone) if fault}
    return wrong, max(seconds for _, seconds in everyone)


def addend(rank: int, repetition: int) -> np.ndarray:
    """Return x_i = r² + i + k, [COUNT], which differs by rank, place and call."""
    return (rank**2 + repetition + np.arange(COUNT)).astype(np.float32)


def total(size: int, repetition: int) -> np.ndarray:
    """Return Σ_r x of `addend`, [COUNT]: whole numbers, exact in float32 below P = 360."""
    addends = [addend(rank, repetition) for rank in range(size)]
    return np.asarray(np.sum(addends, axis=0, dtype=np.float64), np.float32)


def compare(got: np.ndarray, due: np.ndarray) -> str:
    """Return the fault of a result, empty if it is right."""
    if got.shape != due.shape:
        return f"got the shape {got.shape} where {due.shape} is due"
    # Above 2**24, float32 rounds, and the order of the additions shows.
    where = np.flatnonzero(~np.isclose(got, due, rtol=1e-5, atol=0.0))
    return "".join(
        f"got {got[first]:.9g} where {due[first]:.9g} is due, at place {first}, and is wrong at "
        f"{where.size} of {due.size} places"
        for first in where[:1]
    )
