"""Compare `sp.solve` with finite elements, spectral codes and DeepXDE: error against seconds.

    python benchmarks/baselines.py
    python benchmarks/baselines.py --problems poisson-2d,heat --methods sp.solve 'FEM, P1'

Each run is a process with one thread. It solves one problem by one method with one setting, and
counts the processor seconds from the problem's description to the solution in memory. Imports do
not count. The error is relative L2, at the same points for all methods of a problem.

The program writes benchmarks/results/baselines.json after each run, prints a table for each
problem, and draws benchmarks/results/baselines.png. Runs in that file are not repeated. With
`--page`, it writes the tables into docs/baselines.md, and the figure next to it. If scikit-fem or
DeepXDE is missing, their methods are left out; benchmarks/README.md says how to install them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _baselines_methods import DEEPXDE, METHODS, SOLVE, TRAIN, Method, Setting
from _baselines_problems import CASES, Case
from _baselines_report import draw, seconds, setting_of, tables, write_page
from _catalogue_solving import seconds_of_children
from _measuring import RESULTS, some_of, write_json
from peers import Peer

HERE = Path(__file__).parent
PEERS, VENVS = HERE / "peers", HERE / ".venvs"
PEER = Peer("torch", "baselines_deepxde_peer.py")

LIMIT = 1200
"""Seconds by the clock, imports included, after which a run is ended."""

BY_SKFEM = ("elements.", "evolution.", "inverse.")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")} | {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "XLA_FLAGS": "",
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    if options.one:
        name, label, setting = options.one
        print(json.dumps(measured(CASES[name], METHODS[name][label], json.loads(setting))))
        return
    file, here = options.json, circumstances()
    record = json.loads(file.read_text()) if file.exists() else {"with": here, "runs": []}
    runs = record["runs"]
    versions = {} if record["with"] == here else {"with": here}
    print(here)
    for name, method, setting in chosen(options):
        key = {"problem": name, "method": method.label, "setting": list(setting)}
        if not options.again and any(key.items() <= run.items() for run in runs):
            continue
        runs[:] = [run for run in runs if not key.items() <= run.items()]
        runs.append(key | versions | run_of(name, method, setting))
        run = runs[-1]
        found = f"{run['error']:.1e} in {seconds(run)}"
        print(f"{name}, {method.label}, {setting_of(run)}: {found}", flush=True)
        write_json(file, record, quiet=True)
    print(tables(runs))
    draw(runs, file.with_suffix(".png"))
    if options.page:
        write_page(record)


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, Method, Setting]]:
    """Yield the problems, methods and settings of the command line."""
    for name in options.problems:
        for method in METHODS[name].values():
            if (not options.methods or method.label in options.methods) and is_there(method):
                for setting in method.settings[: 1 if options.quick else None]:
                    yield name, method, setting


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--problems", type=some_of(CASES), default=list(CASES), metavar="NAME,…")
    add(
        "--methods",
        nargs="+",
        default=(),
        choices=sorted({label for methods in METHODS.values() for label in methods}),
        metavar="LABEL",
        help="such as sp.solve 'FEM, P1'; default all",
    )
    add("--again", action="store_true", help="repeat the runs in the file")
    add("--quick", action="store_true", help="the cheapest setting of each method alone")
    add("--json", type=Path, default=RESULTS / "baselines.json", metavar="FILE")
    add("--page", action="store_true", help="write the tables into docs/baselines.md")
    add("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def circumstances() -> str:
    """Return the versions."""
    modules = ("numpy", "scipy", "skfem", "tensorflow", "keras")
    names = (each.replace("skfem", "scikit-fem") for each in modules if find_spec(each))
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"Python {platform.python_version()}, {versions}"


def run_of(name: str, method: Method, setting: Any) -> dict[str, Any]:
    """Measure a run in a fresh process."""
    if method.label == DEEPXDE:
        return by_deepxde(name, *setting)
    return in_a_process(sys.executable, __file__, "--one", name, method.label, json.dumps(setting))


def by_deepxde(name: str, seed: int) -> dict[str, Any]:
    """Measure a run of DeepXDE in its environment."""
    case, x = CASES[name], CASES[name].points()
    arrays = {"name": name, "x": x, "exact": case.make().exact(x)}
    if case.inverse:
        data = case.make(seed=seed).conditions[-1]
        arrays |= {"places": data.x, "seen": data.u}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        np.savez(file, **arrays)
        found = in_a_process(str(PEER.python(VENVS)), str(PEERS / PEER.program), str(file))
    if "value" in found:
        found["error"] = case.error(found["value"])
    return found


def is_there(method: Method) -> bool:
    """Return whether the packages of a method are installed; print which one is not."""
    if method.function.startswith(BY_SKFEM) and not find_spec("skfem"):
        print(f"{method.label} is left out: scikit-fem is not installed")
        return False
    if method.label == DEEPXDE and not PEER.python(VENVS).exists():
        print(f"{method.label} is left out: there is no {PEER.python(VENVS)}")
        return False
    return True


def in_a_process(*command: str) -> dict[str, Any]:
    """Run a program with one thread, and return the JSON of its last line."""
    environment, before = os.environ | ONE_THREAD, seconds_of_children()
    try:
        # A limit of processor seconds would make the clock of these seconds coarse.
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"error": math.nan, "cpu": seconds_of_children() - before}
    if ended.returncode:
        sys.exit(f"error: {' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


def measured(case: Case, method: Method, setting: Any) -> dict[str, Any]:
    """Solve a problem, and return its error with the seconds that it took."""
    solver = method.solver()
    case.points(), case.make()  # They import the catalogue.
    if method.label in (SOLVE, TRAIN):
        from _baselines_package import prepare

        prepare()
        solve: Callable[[], Any] = lambda: solver(case, *setting)  # noqa: E731
    else:
        solver(*method.settings[0])  # SciPy and BLAS load parts of themselves at their first use.
        solve = lambda: solver(*setting)  # noqa: E731
    began = time.process_time()
    found = solve()
    used = time.process_time() - began
    found = found if isinstance(found, dict) else {"solution": found}
    compared = found.pop("solution") if "solution" in found else found["value"]
    return {"cpu": used, "error": case.error(compared)} | found


if __name__ == "__main__":
    main()
