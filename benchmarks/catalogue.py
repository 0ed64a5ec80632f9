"""How well scripts/solve.py solves the problems of the catalogue with what these suggest.

Each problem is solved with several seeds of the initial weights, one after the other, on one rank,
as a user does it, with a time limit for each. The error is relative L2 over a grid of points,
against the exact solution or the catalogue's reference; that of unknown coefficients is the largest
of their relative errors. The seconds are those of the training, compilation beside them. The
figures of a problem are medians over the seeds.

    python benchmarks/catalogue.py
    python benchmarks/catalogue.py heat burgers --seeds 1

prints a table and writes benchmarks/results/catalogue.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _measuring import RESULTS, write_json

from sciml_par.problems import CatalogueEntry, catalogue_entries, catalogue_entry

SOLVE = Path(__file__).parents[1] / "scripts" / "solve.py"
STOPPED = 75  # the exit code of solve.py where its time is over

OF_UNKNOWNS = 1e-3
"""The relative error that unknown coefficients are to reach."""

HEADINGS = (
    f"{'problem':20}{'rel. L2':>9}{'goal':>9}{'unknowns':>10}{'steps':>7}{'s':>7}{'compile':>9}"
    "  seeds"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of problems (default all)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default %(default)s")
    parser.add_argument(
        "--seconds", type=int, default=300, metavar="S", help="of a training (default %(default)s)"
    )
    parser.add_argument("--ranks", type=int, metavar="P", help="by mpirun (default without)")
    options = parser.parse_args()
    entries = [catalogue_entry(name) for name in options.names or catalogue_entries()]
    print(HEADINGS, flush=True)
    found = {}
    for entry in entries:
        runs = [solve(entry, seed, options) for seed in range(options.seeds)]
        found[entry.name] = {"goal": entry.goal, "runs": runs, **medians(runs)}
        print(row(entry, found[entry.name]), flush=True)
    write_json(RESULTS / "catalogue.json", found)


def solve(entry: CatalogueEntry, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """What solve.py found of a problem with a seed; its messages go to the standard error."""
    launcher = ["mpirun", "-np", str(options.ranks)] if options.ranks else []
    with tempfile.TemporaryDirectory() as folder:
        command = [*launcher, sys.executable, str(SOLVE), entry.name, "--seed", str(seed)]
        command += ["--wall-time", str(options.seconds), "--no-plots"]
        command += ["--output", folder]
        ended = subprocess.run(command, check=False, stdout=sys.stderr)
        if ended.returncode not in (0, STOPPED):
            sys.exit(f"error: solve.py {entry.name} ended with code {ended.returncode}")
        member = json.loads((Path(folder) / "results.json").read_text())["members"][0]
    return {
        "seed": seed,
        "error": member["relative_l2_error"],
        "unknowns": max((each["relative_error"] for each in member["unknowns"]), default=0.0),
        "steps": member["steps"],
        "seconds": member["seconds_train"],
        "compile": member["seconds_compile"],
        "ended": member["ended"],
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Of the errors, steps and seconds."""
    names = ("error", "unknowns", "steps", "seconds", "compile")
    return {name: statistics.median(run[name] for run in runs) for name in names}


def row(entry: CatalogueEntry, found: dict[str, Any]) -> str:
    """A line of the table."""
    errors = ", ".join(f"{run['error']:.1e}" for run in found["runs"])
    reached = found["error"] <= entry.goal and found["unknowns"] <= OF_UNKNOWNS
    met = "" if reached else "  not reached"
    unknowns = f"{found['unknowns']:.0e}" if found["unknowns"] else ""
    return (
        f"{entry.name:20}{found['error']:9.1e}{entry.goal:9.0e}{unknowns:>10}{found['steps']:7.0f}"
        f"{found['seconds']:7.1f}{found['compile']:9.1f}  {errors}{met}"
    )


if __name__ == "__main__":
    main()
