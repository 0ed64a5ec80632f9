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

import itertools
import json
import statistics
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _examples import ALL, goal_of, problem_named, settings_of, training_of
from _runner import RESULTS, Row, measure, on_ranks, parse, report, seconds_of

OF_UNKNOWNS, WITH_NOISE = 1e-3, 2e-2
"""The relative errors that unknown coefficients are to reach, without noise and with 1 % of it."""

TO_ROUNDING = 1e-8
"""What losses and predictions may differ by, relatively. A step of least squares solves equations
of a condition of up to 1e10 or so, which makes that of the last digits, 1e-16."""

MEDIANS = ("error", "unknowns", "steps", "seconds", "compile", "cpu")
COLUMNS = {
    "problem": "name:<20",
    "seed": "seed:5",
    "relative L2 error": "error:19.1e",
    "to reach": "goal:10.0e",
    "of unknowns": "unknowns:13.1e",
    "steps": "steps:7.0f",
    "training, s": "seconds:13.3g",
    "compilation, s": "compile:16.3g",
    "processor, s": "cpu:14.3g",
}
OVER_SEEDS = COLUMNS | {"seed": "seeds:5", "largest": "largest:10.1e", "": "verdict:14"}
OF_RANKS = {
    "problem": "name:<20",
    "steps": "steps:6",
    "losses": "losses:10.0e",
    "prediction": "prediction:12.0e",
    "": "verdict:24",
}


def main() -> None:
    options = parsed()
    if options.ranks is not None:
        found = compare(options.names, options.ranks, options.steps)
        return report(OF_RANKS, found, options.json or RESULTS / "catalogue_ranks.json")
    noisy = options.noise is not None
    file = options.json or RESULTS / ("catalogue_noise.json" if noisy else "catalogue.json")
    cases = [
        {"name": name, "seed": seed, "with": settings(name, seed, options.noise)}
        for seed, name in itertools.product(range(options.seeds), options.names)
    ]
    run = partial(solve, seconds=None if options.cpu else options.seconds)
    runs = measure(cases, COLUMNS, run, file=file, again=options.again)
    report(OVER_SEEDS, [summary(name, runs, options) for name in options.names])


def parsed(arguments: Sequence[str] | None = None) -> Namespace:
    numbers = {"type": lambda text: [int(number) for number in text.split(",")], "metavar": "P,…"}
    return parse(
        __doc__,
        arguments,
        names=ALL,
        seeds=3,
        seconds=(300, "of a run"),
        cpu=(False, "count processor seconds, for a busy machine: no training is ended, and one "
             "that took longer than --seconds has not reached its goal"),
        noise=(float, "share of noise in observations, for inverse problems"),
        json=(Path, "default results/catalogue.json"),
        again=(False, "solve the problems in the file again"),
        ranks=(numbers, "compare a few steps on these numbers of ranks instead, as 1,2"),
        steps=(5, "with --ranks"),
    )  # fmt: skip


def settings(name: str, seed: int, noise: float | None) -> dict[str, Any]:
    """Return all that a run depends on, as JSON: the settings and the problem's parameters."""
    parameters = {} if noise is None else {"noise": noise, "seed": seed}
    found: Row = json.loads(json.dumps({**settings_of(name), "parameters": parameters}))
    return found


def solve(name: str, seed: int, seconds: int | None, **case: Any) -> dict[str, Any]:
    """Solve a problem in another process, whose training ends after `seconds` if they are given."""
    before = seconds_of()
    found = on_ranks(None, train_one, name, seed, seconds, case["with"]["parameters"])
    return found | {"goal": goal_of(name), "cpu": seconds_of() - before}


def train_one(name: str, seed: int, seconds: int | None, parameters: Row) -> dict[str, Any]:
    """Train with the settings of a problem; return errors, steps and seconds by the clock."""
    import sciml_par as sp

    sp.init(quiet=True)
    given = training_of(name) | {"seed": seed}
    if seconds is not None:
        given["stop"] = sp.training.WallTime(seconds=seconds)
    result = sp.train(problem_named(name, **parameters), **given)
    member, unknowns = result.members[0], result.unknowns
    return {
        "error": member.on_own_domain.relative_l2_error,
        "unknowns": max((float(each.relative_error) for each in unknowns.values()), default=0.0),
        "found": {key: np.asarray(each.mean).tolist() for key, each in unknowns.items()},
        "steps": member.steps,
        "seconds": member.seconds_train,
        "compile": member.seconds_compile,
        "ended": member.ended,
    }


def summary(name: str, runs: Sequence[Row], options: Namespace) -> Row:
    """Return the medians over the seeds, and whether they meet their goals."""
    chosen = [run for run in runs if run["name"] == name and run["seed"] < options.seeds]
    found: Row = {key: statistics.median(run[key] for run in chosen) for key in MEDIANS}
    reached = found["unknowns"] <= (OF_UNKNOWNS if options.noise is None else WITH_NOISE)
    reached &= options.noise is not None or found["error"] <= goal_of(name)
    reached &= not options.cpu or found["cpu"] <= options.seconds
    found |= {"name": name, "seeds": len(chosen), "goal": goal_of(name)}
    largest = max(run["error"] for run in chosen)
    return found | {"largest": largest, "verdict": "" if reached else "not reached"}


def compare(names: Sequence[str], numbers: Sequence[int], steps: int) -> list[Row]:
    """Train the problems on each number of ranks, and return how far they differ."""
    found = [on_ranks(number, train_each, names, steps) for number in numbers]
    return [{"name": name, **difference([each[name] for each in found])} for name in names]


def train_each(names: Sequence[str], steps: int) -> Row:
    """Return losses from the start on, and the prediction at the end, by name (collective)."""
    import sciml_par

    sciml_par.init(quiet=True)
    found = {}
    for name in names:
        arguments = training_of(name) | {"steps": steps, "log_every": 1, "progress": False}
        result = sciml_par.train(problem_named(name), **arguments)
        if sciml_par.rank() == 0:
            member = result.members[0]
            u = member.prediction.u.tolist()
            found[name] = {"losses": member.losses.tolist(), "prediction": u}
    return found


def difference(runs: Sequence[Row]) -> Row:
    """Return the largest relative difference of losses and predictions from the first run."""
    found: Row = {"steps": len(runs[0]["losses"]) - 1}
    for name in ("losses", "prediction"):
        first, *others = (np.array(run[name]) for run in runs)
        scale = np.abs(first) if name == "losses" else np.nanmax(np.abs(first))
        found[name] = max(float(np.nanmax(np.abs(other - first) / scale)) for other in others)
    same = max(found["losses"], found["prediction"]) <= TO_ROUNDING
    return found | {"verdict": "" if same else "more than by rounding"}


if __name__ == "__main__":
    main()
