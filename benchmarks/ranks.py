"""Whole programs on one, two and four ranks, run as users run them, and the machine's own limit.

    python benchmarks/ranks.py
    python benchmarks/ranks.py --programs readme,adam --ranks 1,2
    python benchmarks/ranks.py --cores 1 --ranks 1,2

No variable of the environment is set. By default one rank has all cores of the machine; with
--cores, each rank has as many of its own, as under most schedulers (scripts have all). "alone" are
as many processes that do not communicate and do the work of one rank each: what they take longer
than one process is the machine's doing. "steps" is the time of the steps alone on one rank, divided
by that on several, without the start and the compilation, which every rank repeats. Prints
seconds of wall time from start to end, and writes benchmarks/results/ranks.json.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _examples import problem_named, two_scales
from _runner import RESULTS, measure, parse, some_of

import sciml_par as sp
from sciml_par.parallel.startup.launcher_environment import launched_rank

ROOT = Path(__file__).resolve().parents[1]
STEPS = "seconds of steps:"
SCRIPTS = {
    "function_approximation.py": ("--mode", "data"),
    "pinn_poisson.py": ("--mode", "ensemble"),
    "inverse.py": ("inverse-diffusion", "--noise", "0.05"),
    "solve.py": ("heat", "--tolerance", "1e-4"),
}


def start_only() -> None:
    """Import TensorFlow and join the ranks: what every program below begins with."""


def readme() -> None:
    text = (ROOT / "README.md").read_text()
    exec(text.partition("```python\n")[2].partition("```")[0], {})


def members() -> sp.Result:
    return two_scales("Adam", 300, 1_000, 32, mode=sp.training.Ensemble(members=8))


def windows() -> sp.Result:
    inner = partial(sp.networks.RandomFeatures, features=200, scale=12.0)
    return sp.train(
        problem_named("poisson-two-scales", k=4),
        network=sp.networks.Windows(inner, parts=(6, 6)),
        points=sp.training.Points(18_000, boundary=1_200, method="sobol"),
        optimizer=sp.training.LeastSquares(),
        precision="float64",
        progress=False,
        estimate=False,
    )


def slabs() -> sp.Result:
    import numpy as np

    from sciml_par.problems import Dirichlet, Initial, Interval, Problem, Time, derivative

    start = Initial(lambda x: np.sin(np.pi * x[:, :1]))
    problem = Problem(
        Interval(0, 1) * Time(0, 1, slabs=4),
        lambda u, x: derivative(u, x, "t") - derivative(u, x, 0, 0) / 10,
        conditions=[start, Dirichlet(0.0, on=["left", "right"])],
    )
    optimizer = sp.training.LevenbergMarquardt()
    more = {"steps": 60, "points": 1_000, "precision": "float64", "progress": False}
    return sp.train(problem, optimizer=optimizer, **more)


def inverse() -> sp.Result:
    found = sp.train(sp.problems.problem_by_name("inverse-diffusion"), progress=False)
    found.uncertainty()
    return found


PROGRAMS: dict[str, Callable[[], sp.Result | None]] = {
    "start": start_only,
    "readme": readme,
    "adam": partial(two_scales, "Adam", 1_500, 5_000, 32),
    "adam-20000": partial(two_scales, "Adam", 60, 20_000, 64),
    "lm": partial(two_scales, "LevenbergMarquardt", 60, 3_000, 24),
    "lm-12000": partial(two_scales, "LevenbergMarquardt", 6, 12_000, 35),
    "lbfgs": partial(two_scales, "LBFGS", 300, 5_000, 32),
    "members": members,
    "windows": windows,
    "slabs": slabs,
    "inverse": inverse,
}


def main() -> None:
    known = [*PROGRAMS, *SCRIPTS]
    ranks = {"type": some_of("1248"), "default": ["1", "2", "4"], "metavar": "1,2,4"}
    rounds = (1, "of which the least time counts")
    cores = (0, "of each rank; 0: one rank has all, and several share them")
    options = parse(__doc__, programs=known, ranks=ranks, rounds=rounds, cores=cores)
    columns = {"program, seconds": "program:<24"}
    for p in options.ranks:
        columns |= {f"{p} rank{'s' * (p > '1')}": f"{p}:10.1f", f"÷ {p}": f"ratio_{p}:8.2f"}
        more = {f"alone {p}": f"alone_{p}:9.1f", "steps": f"steps_{p}:7.2f"}
        columns |= more if p > "1" else {}

    def run(program: str) -> dict[str, Any]:
        row: dict[str, Any] = {}
        steps: dict[str, float] = {}
        for p in options.ranks:
            of, rounds = (program, int(p), options.cores), range(options.rounds)
            row[p], steps[p] = min(seconds(*of) for _ in rounds)
            row[f"ratio_{p}"] = row[p] / row[options.ranks[0]]
            if p > "1":
                row[f"alone_{p}"], _ = min(seconds(*of, alone=True) for _ in rounds)
                row[f"steps_{p}"] = steps[options.ranks[0]] / steps[p]
        return row

    cases = [{"program": name} for name in options.programs]
    measure(cases, columns, run, file=RESULTS / "ranks.json")


def seconds(name: str, ranks: int, cores: int, *, alone: bool = False) -> tuple[float, float]:
    """Return the seconds of a program on some ranks, or of as many copies of it on one each.

    And of its steps alone, NaN where it does not tell them.
    """
    command = [sys.executable, __file__, "--work", name, str(cores)]

    def of_copy(number: int) -> list[str]:
        if name not in SCRIPTS and (alone or ranks == 1):
            return [*command, str(number)]
        return ["mpirun", "-np", str(ranks), *command] if ranks > 1 and not alone else command

    if name in SCRIPTS:
        command = [sys.executable, str(ROOT / "scripts" / name), *SCRIPTS[name]]
    with ExitStack() as folders:
        began = time.perf_counter()
        started = [
            subprocess.Popen(
                of_copy(number),
                cwd=folders.enter_context(TemporaryDirectory()),
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(ranks if alone else 1)
        ]
        said = [process.communicate()[0] for process in started]
        codes = [process.returncode for process in started]
        taken = time.perf_counter() - began
    if any(codes):
        sys.exit(f"error: {name} on {ranks} rank(s) ended with exit code {max(codes)}.")
    of_steps = [float(line.removeprefix(STEPS)) for line in said[0].splitlines() if STEPS in line]
    return taken, max(of_steps, default=math.nan)


def work(name: str, cores: int, number: int | None = None) -> None:
    """Run a program, on the cores of this rank or copy if each has its own."""
    if cores:
        place = (number if number is not None else launched_rank(os.environ) or 0) * cores
        os.sched_setaffinity(0, range(place, place + cores))
    sp.init()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the trainings are too short for good solutions
        found = PROGRAMS[name]()
    if found is not None and sp.rank() == 0:
        of_ranks = [each for member in found.members for each in member.contributions]
        print(STEPS, max(each.seconds_train for each in of_ranks))


if __name__ == "__main__":
    work(sys.argv[2], *map(int, sys.argv[3:])) if sys.argv[1:2] == ["--work"] else main()
