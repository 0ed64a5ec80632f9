"""Whole programs on one, two and four ranks, run as users run them, and the machine's own limit.

    python benchmarks/ranks.py
    python benchmarks/ranks.py --programs readme,adam --ranks 1,2

No variable of the environment is set. "alone" are as many processes that do not communicate and
do the work of one rank each: what they take longer than one process is the machine's doing.
Prints seconds of wall time from start to end, and writes benchmarks/results/ranks.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from _measuring import RESULTS, some_of, write_json

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {
    "function_approximation.py": ("--mode", "data"),
    "pinn_poisson.py": ("--mode", "ensemble"),
    "inverse.py": ("inverse-diffusion", "--noise", "0.05"),
    "solve.py": ("heat", "--tolerance", "1e-4"),
}


def start_only() -> None:
    """Import TensorFlow and join the ranks: what every program below begins with."""


def readme() -> None:
    """Run the first program of the README."""
    text = (ROOT / "README.md").read_text()
    exec(text.partition("```python\n")[2].partition("```")[0], {})


def training(optimizer: str, steps: int, points: int, width: int = 32, **options: Any) -> None:
    """Train a network of three layers on Poisson's equation with two scales."""
    from _examples import problem_named

    import sciml_par as sp

    sp.train(
        problem_named("poisson-two-scales", k=2),
        network=partial(sp.networks.MLP, width=width, depth=3),
        optimizer=getattr(sp.training, optimizer)(),
        steps=steps,
        points=sp.training.Points(points, boundary=400, method="sobol"),
        precision="float64",
        progress=False,
        **options,
    )


def members() -> None:
    """Train eight members, each on one rank."""
    import sciml_par as sp

    training("Adam", 300, 1_000, mode=sp.training.Ensemble(members=8))


def windows() -> None:
    """Solve Poisson's equation in 6 × 6 windows of 200 features."""
    from _examples import problem_named

    import sciml_par as sp

    sp.train(
        problem_named("poisson-two-scales", k=4),
        network=sp.networks.Windows(
            partial(sp.networks.RandomFeatures, features=200, scale=12.0), parts=(6, 6)
        ),
        points=sp.training.Points(18_000, boundary=1_200, method="sobol"),
        optimizer=sp.training.LeastSquares(),
        precision="float64",
        progress=False,
        estimate=False,
    )


def slabs() -> None:
    """Train on the heat equation in four slabs of time, one after another."""
    import numpy as np

    import sciml_par as sp
    from sciml_par.problems import Dirichlet, Initial, Interval, Problem, Time

    def equation(u: Any, x: Any) -> Any:
        first, second = sp.problems.derivative(u, x, "t"), sp.problems.derivative(u, x, 0, 0)
        return first - second / 10

    problem = Problem(
        Interval(0, 1) * Time(0, 1, slabs=4),
        equation,
        conditions=[
            Initial(lambda x: np.sin(np.pi * x[:, :1])),
            Dirichlet(0.0, on=["left", "right"]),
        ],
    )
    sp.train(
        problem,
        optimizer=sp.training.LevenbergMarquardt(),
        steps=60,
        points=1_000,
        precision="float64",
        progress=False,
    )


def inverse() -> None:
    """Find a diffusivity from noisy values, with its deviation."""
    import sciml_par as sp

    problem = sp.problems.problem_by_name("inverse-diffusion")
    sp.train(problem, progress=False).uncertainty()


PROGRAMS: dict[str, Callable[[], None]] = {
    "start": start_only,
    "readme": readme,
    "adam": partial(training, "Adam", 1_500, 5_000),
    "adam, 20,000 points": partial(training, "Adam", 60, 20_000, 64),
    "lm": partial(training, "LevenbergMarquardt", 60, 3_000, 24),
    "lm, 12,000 points": partial(training, "LevenbergMarquardt", 6, 12_000, 35),
    "lbfgs": partial(training, "LBFGS", 300, 5_000),
    "members": members,
    "windows": windows,
    "slabs": slabs,
    "inverse": inverse,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*PROGRAMS, *SCRIPTS]
    parser.add_argument("--programs", type=some_of(known), default=known, metavar="A,B")
    parser.add_argument("--ranks", type=some_of("1248"), default=["1", "2", "4"], metavar="1,2,4")
    parser.add_argument("--rounds", type=int, default=1, help="of which the least time counts")
    parser.add_argument("--worker", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    sizes = [int(number) for number in options.ranks]
    rows = []
    print(f"{'':24}" + "".join(f"{_ranks(p):>10}{'ratio':>8}{'alone':>8}" for p in sizes))
    for name in options.programs:
        row = {"program": name, "seconds": {}, "alone": {}}
        for p in sizes:
            times = [seconds(name, p) for _ in range(options.rounds)]
            row["seconds"][p] = min(times)
            row["alone"][p] = min(seconds(name, p, alone=True) for _ in times) if p > 1 else None
        rows.append(row)
        print(line(row), flush=True)
    write_json(RESULTS / "ranks.json", {"cores": len(os.sched_getaffinity(0)), "rows": rows})


def line(row: dict[str, Any]) -> str:
    """Return the line of a program: seconds, over those of the fewest ranks, and alone."""
    first = next(iter(row["seconds"].values()))
    cells = ""
    for ranks, taken in row["seconds"].items():
        alone = row["alone"][ranks]
        cells += f"{taken:8.1f} s{taken / first:8.2f}" + (f"{alone:6.1f} s" if alone else " " * 8)
    return f"{row['program']:24}{cells}"


def _ranks(number: int) -> str:
    return f"{number} rank" + ("s" if number > 1 else "")


def seconds(name: str, ranks: int, *, alone: bool = False) -> float:
    """Return the seconds of a program on some ranks, or of as many copies of it on one each."""
    launcher = ["mpirun", "-np", str(ranks)] if ranks > 1 and not alone else []
    folders = [Path(tempfile.mkdtemp()) for _ in range(ranks if alone else 1)]
    began = time.perf_counter()
    started = [
        subprocess.Popen([*launcher, *command_of(name)], cwd=folder, stdout=subprocess.DEVNULL)
        for folder in folders
    ]
    codes = [process.wait() for process in started]
    taken = time.perf_counter() - began
    for folder in folders:
        shutil.rmtree(folder)
    if any(codes):
        sys.exit(f"error: {name} on {_ranks(ranks)} ended with exit code {max(codes)}.")
    return taken


def command_of(name: str) -> Sequence[str]:
    """Return the command of a program of this page or of scripts/."""
    if name in SCRIPTS:
        return [sys.executable, str(ROOT / "scripts" / name), *SCRIPTS[name]]
    return [sys.executable, __file__, "--worker", name]


def work(name: str) -> None:
    """Run a program, whose rank 0 prints the seconds from `init` on."""
    import sciml_par as sp

    sp.init()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the trainings are too short for good solutions
        PROGRAMS[name]()
    if sp.rank() == 0:
        print(json.dumps({"work": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
