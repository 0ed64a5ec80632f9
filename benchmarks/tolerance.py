"""`solve` on 46 problems: the true error, the estimated one, and whether the claims are true.

    python benchmarks/tolerance.py [NAME ...] [--tolerances 1e-3 1e-6 1e-9] [--seeds 3]
                                   [--seconds 120] [--trained]

With --trained, of networks after 60 steps of Levenberg–Marquardt by `train(…, estimate=True)`.
Prints a line for each run, and how many estimates are within a factor of 3 of the true error;
writes benchmarks/results/tolerance.json and a figure of estimated against true errors.
"""

from __future__ import annotations

import itertools
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from _examples import ALL, problem_named
from _runner import RESULTS, is_first, measure, parse
from _tolerance_problems import PROBLEMS

import sciml_par as sp

FACTOR = 3.0
COLUMNS = {
    "problem": "name:<20",
    "tolerance": "tolerance:10.0e",
    "seed": "seed:6",
    "true": "true:9.1e",
    "estimated": "estimated:11.1e",
    "q": "reliability:9.2g",
    "seconds": "seconds:9.1f",
    "network": "network:16",
}


def main() -> None:
    tolerances = {"type": float, "nargs": "+", "default": [1e-3, 1e-6, 1e-9]}
    names = [*ALL, *PROBLEMS]
    options = parse(
        __doc__, names=names, tolerances=tolerances, seeds=3, seconds=120.0, trained=False
    )
    sp.init()
    whole = itertools.product(options.names, options.tolerances, range(options.seeds))
    cases = [dict(zip(("name", "tolerance", "seed"), each, strict=True)) for each in whole]

    def run(**case: Any) -> dict[str, Any]:
        return solved(**case, seconds=options.seconds, trained=options.trained)

    runs = measure(cases, COLUMNS, run, file=RESULTS / "tolerance.json")
    if is_first():
        report(runs)
        draw(runs)


def solved(
    name: str, tolerance: float, seed: int, seconds: float, *, trained: bool
) -> dict[str, Any]:
    problem = PROBLEMS[name]() if name in PROBLEMS else problem_named(name)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"seed": seed, "progress": False}
        if trained:
            result = network(problem, **options)
        else:
            result = sp.solve(problem, tolerance=tolerance, seconds=seconds, **options)
    return {
        "seconds": result.error.seconds if trained else time.perf_counter() - began,
        "network": type(result.networks[0]).__name__,
        "true": result.members[0].on_own_domain.relative_l2_error,
        "estimated": result.error.relative,
        "reliability": result.error.reliability,
        "at_rounding": result.error.at_rounding,
        "sentence": result.error.sentence,
    }


def network(problem: sp.problems.Problem, **options: Any) -> sp.Result:
    return sp.train(
        problem,
        network=partial(sp.networks.MLP, width=20, depth=2),
        points=sp.training.Points(1_000, method="sobol"),
        optimizer=sp.training.LevenbergMarquardt(),
        steps=60,
        precision="float64",
        estimate=True,
        **options,
    )


def report(runs: list[dict[str, Any]]) -> None:
    claimed = [r for r in runs if np.isfinite(r["estimated"]) and np.isfinite(r["true"])]
    ratios = [r["estimated"] / r["true"] for r in claimed if not r["at_rounding"]]
    close = sum(1 / FACTOR <= ratio <= FACTOR for ratio in ratios)
    met = [r for r in claimed if r["estimated"] <= r["tolerance"]]
    false = [r for r in met if r["true"] > FACTOR * r["tolerance"]]
    print(f"an error is claimed in {len(claimed)} of {len(runs)} runs")
    print(f"within a factor of {FACTOR:g} of the truth: {close} of {len(ratios)} (not at rounding)")
    print(f"tolerance claimed as met: {len(met)}; of these false: {len(false)}")


def draw(runs: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.5), layout="constrained")
    axes, line = figure.subplots(), np.array([1e-16, 1.0])
    axes.fill_between(line, line / FACTOR, line * FACTOR, color="0.9", label="within a factor of 3")
    axes.loglog(line, line, color="0.5", linewidth=0.8)
    for at_rounding, label in ((False, "estimated"), (True, "upper bound, at rounding")):
        chosen = [
            (r["true"], r["estimated"])
            for r in runs
            if r["at_rounding"] == at_rounding and np.isfinite([r["true"], r["estimated"]]).all()
        ]
        if chosen:
            x, y = zip(*chosen, strict=True)
            axes.loglog(x, y, "v" if at_rounding else "o", markersize=4, alpha=0.7, label=label)
    axes.set(xlabel="true relative L2 error", ylabel="estimated relative L2 error")
    axes.legend(frameon=False)
    for suffix in ("png", "pdf"):
        figure.savefig(RESULTS / f"tolerance.{suffix}", dpi=150)


if __name__ == "__main__":
    main()
