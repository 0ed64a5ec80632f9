"""Measure the memory of a sweep of trainings in one process, each of another equation.

    python benchmarks/memory.py [--trainings 300] [--optimizer LevenbergMarquardt]

Prints the resident memory after the first training, and every twentieth above it, in MB; writes
benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path
from typing import Any

from _measuring import RESULTS, write_json

import sciml_par as sp
from sciml_par import training
from sciml_par.problems import Dirichlet, Interval, Problem, laplacian

OPTIMIZERS = ("Adam", "LBFGS", "SSBroyden", "LevenbergMarquardt")
SHOWN_EVERY = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainings", type=int, default=300)
    parser.add_argument("--optimizer", default="LevenbergMarquardt", choices=OPTIMIZERS)
    options = parser.parse_args()
    sp.init()
    found = []
    for number in range(options.trainings):
        train(1.0 + number, getattr(training, options.optimizer)())
        gc.collect()
        found.append(resident())
        if number % SHOWN_EVERY == 0:
            above = found[-1] - found[0]
            print(f"{number + 1:5d} trainings: {above:6.0f} MB above {found[0]:.0f}", flush=True)
    peak = max(found) - found[0]
    print(f"peak: {peak:.0f} MB above the first, {options.optimizer}")
    write_json(RESULTS / "memory.json", {"optimizer": options.optimizer, "megabytes": found})


def train(k: float, optimizer: Any) -> None:
    """Train with another number in the residual, which is another program to compile."""

    def equation(u: Any, x: Any) -> Any:
        return laplacian(u, x) - k * u(x) - 1.0

    problem = Problem(Interval(0, 1), equation, conditions=[Dirichlet(0.0)])
    sp.train(problem, optimizer=optimizer, steps=5, precision="float64", progress=False)


def resident() -> float:
    """Return the resident memory of this process in MB, from /proc."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
