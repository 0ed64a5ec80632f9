"""Shared by the benchmarks: started ranks, candidates timed in turns, JSON files."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
WARM_UPS = 2
"""The first round compiles and agrees, the second finds its memory."""

_SECONDS = 1200.0

Candidate = Callable[[], float]
"""Does something, and returns how many microseconds one piece of it took."""


def run_ranks(ranks: int | None, program: str, *arguments: str) -> Any:
    """Return the JSON that the ranks of a program print in their last line.

    Parameters
    ----------
    ranks : how many; None for one process without mpirun.
    """
    launcher = [] if ranks is None else ["mpirun", "-np", str(ranks)]
    command = [*launcher, sys.executable, program, *arguments]
    ended = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, text=True, timeout=_SECONDS
    )
    if ended.returncode:
        sys.exit(ended.returncode)
    return json.loads(ended.stdout.strip().splitlines()[-1])


def some_of(known: Iterable[str]) -> Any:
    """Return a parser of names joined by commas."""

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(
                f"expected some of {','.join(known)}; got {unknown[0]!r}"
            )
        return names

    return chosen


def report(times: Mapping[str, float]) -> None:
    """Print the slowest rank's times as one line of JSON, on rank 0 (collective)."""
    found = slowest(times)
    if _world().rank == 0:
        print(json.dumps(found))


def slowest(times: Mapping[str, float]) -> dict[str, float]:
    """Return the slowest rank's times (collective)."""
    everyone = _world().allgather_object(dict(times))
    return {name: max(each[name] for each in everyone) for name in times}


def in_turns(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, float]:
    """Return the median microseconds of each candidate (collective)."""
    times = all_in_turns(candidates, rounds)
    return {name: statistics.median(each) for name, each in times.items()}


def all_in_turns(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, list[float]]:
    """Return the microseconds of each candidate and round; ranks start together (collective)."""
    from mpi4py import MPI

    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(WARM_UPS + rounds):
        for name, candidate in candidates.items():
            MPI.COMM_WORLD.Barrier()
            microseconds = candidate()
            if number >= WARM_UPS:
                times[name].append(microseconds)
    return times


def repeated(function: Callable[[], Any], times: int, *, each: int = 1) -> Candidate:
    """Return a candidate that calls `function` `times` times; a call does `each` pieces of work."""

    def run() -> float:
        began = time.perf_counter()
        for _ in range(times):
            function()
        return 1e6 * (time.perf_counter() - began) / (times * each)

    return run


def write_json(path: Path, found: Any, *, quiet: bool = False) -> None:
    """Write what was found, and say where unless `quiet`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    if not quiet:
        print(f"written to {path}")


def _world() -> Any:
    from sciml_par.parallel import current_world

    return current_world().communicator
