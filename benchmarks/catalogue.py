"""Measure how accurately the settings of the catalogue and of examples/ solve their problems.

Each problem is solved with several seeds of the initial weights, one after another, on one rank,
with a time limit for each. The error is relative L2 over a grid of points,
against the exact solution or the reference; that of unknown coefficients is the largest
of their relative errors. The figures of a problem are medians over the seeds.

    python benchmarks/catalogue.py
    python benchmarks/catalogue.py heat burgers --seeds 1

prints a table and writes benchmarks/results/catalogue.json. Problems in that file are not
solved again, unless their settings have changed. All problems are solved with the
first seed before the second seed starts.

    python benchmarks/catalogue.py inverse-diffusion inverse-lorenz --noise 0.01

gives the observations of the inverse problems 1 % of noise, another one for each seed.

    python benchmarks/catalogue.py --ranks 1,2 --steps 5

makes a few steps of each problem on one and on two ranks instead, and compares them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _catalogue_ranks as ranks
from _catalogue_solving import circumstances, solve
from _examples import ALL, goal_of
from _measuring import RESULTS, write_json

OF_UNKNOWNS, WITH_NOISE = 1e-3, 2e-2
"""The relative errors that unknown coefficients are to reach, without noise and with 1 % of it."""

HEADINGS = (
    "| problem | relative L2 error | to reach | of unknowns | steps | training, s | compilation, s "
    "| processor, s | of each seed |\n|---|---|---|---|---|---|---|---|---|"
)


class Options(argparse.Namespace):
    """The options; --help says what they mean."""

    names: list[str]
    seeds: int
    seconds: int
    cpu: bool
    noise: float | None
    json: Path | None
    again: bool
    ranks: list[int] | None
    steps: int
    write: Path | None


def main() -> None:
    options = parsed()
    names = options.names or list(ALL)
    if options.write is not None:
        ranks.train_each(names, options.steps, options.write)
    elif options.ranks is not None:
        found = ranks.compare(names, options.ranks, options.steps)
        file = options.json or RESULTS / "catalogue_ranks.json"
        write_json(file, {"ranks": options.ranks, "differences": found})
    else:
        solve_all(names, options)


def parsed(arguments: Sequence[str] | None = None) -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="problems (default all)")
    add("--seeds", type=int, default=3, metavar="N", help="default %(default)s")
    add("--seconds", type=int, default=300, metavar="S", help="of a run (default %(default)s)")
    add(
        "--cpu",
        action="store_true",
        help="count processor seconds, for a busy machine: no training is ended, and one that took "
        "longer than --seconds has not reached its goal",
    )
    add(
        "--noise",
        type=float,
        metavar="SHARE",
        help="noise in observations, for inverse problems",
    )
    add("--json", type=Path, metavar="FILE", help="default results/catalogue.json")
    add("--again", action="store_true", help="solve the problems in the file again")
    add(
        "--ranks",
        type=lambda text: [int(number) for number in text.split(",")],
        metavar="P,…",
        help="compare a few steps on these numbers of ranks instead, as 1,2",
    )
    add("--steps", type=int, default=5, metavar="N", help="with --ranks (default %(default)s)")
    add("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments, namespace=Options())
    if unknown := [name for name in options.names if name not in ALL]:
        parser.error(f"there is no problem {unknown[0]!r}; there are {', '.join(ALL)}")
    return options


def solve_all(names: Sequence[str], options: Options) -> None:
    """Solve the problems, write what was found after each, and print the table."""
    noisy = options.noise is not None
    file = options.json or RESULTS / ("catalogue_noise.json" if noisy else "catalogue.json")
    found = json.loads(file.read_text()) if file.exists() and not options.again else {}
    for seed in range(options.seeds):
        parameters = [f"noise={options.noise}", f"seed={seed}"] if noisy else []
        for name in names:
            known = found.get(name, {"runs": []})["runs"]
            runs = [run for run in known if current(run, name, options)]
            if all(run["seed"] != seed for run in runs):
                limit = None if options.cpu else options.seconds
                runs.append(solve(name, seed, seconds=limit, parameters=parameters))
                print(line(name, runs[-1:], options), flush=True)
            found[name] = {"goal": goal_of(name), "runs": runs, **medians(runs)}
            write_json(file, found, quiet=True)
    print(HEADINGS)
    for name in names:
        print(line(name, found[name]["runs"], options))
    print(f"written to {file}")


def current(run: dict[str, Any], name: str, options: Options) -> bool:
    """Return whether a run was made with the present settings of the problem."""
    noisy = options.noise is not None
    parameters = [f"noise={options.noise}", f"seed={run['seed']}"] if noisy else []
    return bool(run["with"] == circumstances(name, parameters))


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the medians of the errors, steps and seconds."""
    names = ("error", "unknowns", "steps", "seconds", "compile", "cpu")
    return {name: statistics.median(run[name] for run in runs) for name in names}


def reached(name: str, found: dict[str, float], options: Options) -> bool:
    """Return whether medians meet their goals; with noise, unknowns alone count."""
    in_time = not options.cpu or found["cpu"] <= options.seconds
    if options.noise is not None:
        return in_time and found["unknowns"] <= WITH_NOISE
    return in_time and found["error"] <= goal_of(name) and found["unknowns"] <= OF_UNKNOWNS


def line(name: str, runs: Sequence[dict[str, Any]], options: Options) -> str:
    """Return a row of the Markdown table."""
    found = medians(runs)
    errors = ", ".join(f"{run['error']:.1e}" for run in runs)
    unknowns = f"{found['unknowns']:.1e}" if found["unknowns"] else ""
    cells = [
        f"`{name}`",
        f"{found['error']:.1e}" + ("" if reached(name, found, options) else ", not reached"),
        f"{goal_of(name):.0e}",
        unknowns,
        f"{found['steps']:.0f}",
        *(f"{found[each]:.3g}" for each in ("seconds", "compile", "cpu")),
        errors,
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
