"""`solve` on 46 problems: the true error, the estimated one, and whether the claims are true.

    python benchmarks/tolerance.py [NAME ...] [--tolerances 1e-3 1e-6 1e-9] [--seeds 3]
                                   [--seconds 120]

Prints a line for each run, and how many estimates are within a factor of 3 of the true error;
writes benchmarks/results/tolerance.json and a figure of estimated against true errors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from _examples import ALL, problem_named
from _measuring import RESULTS, write_json
from _tolerance_problems import PROBLEMS

import sciml_par as sp

FACTOR = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*ALL, *PROBLEMS]
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-3, 1e-6, 1e-9])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    sp.init()
    runs = []
    for name in options.names or names:
        for tolerance in options.tolerances:
            for seed in range(options.seeds):
                run = solved(name, tolerance, seed, options.seconds)
                runs.append(run)
                if sp.rank() == 0:
                    print(line_of(run), flush=True)
                    write_json(RESULTS / "tolerance.json", {"runs": runs})
    if sp.rank() == 0:
        report(runs)
        draw(runs)


def solved(name: str, tolerance: float, seed: int, seconds: float) -> dict[str, Any]:
    problem = PROBLEMS[name]() if name in PROBLEMS else problem_named(name)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sp.solve(problem, tolerance=tolerance, seconds=seconds, seed=seed, progress=False)
    return {
        "name": name,
        "tolerance": tolerance,
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "network": type(result.networks[0]).__name__,
        "true": result.members[0].on_own_domain.relative_l2_error,
        "estimated": result.error.relative,
        "reliability": result.error.reliability,
        "at_rounding": result.error.at_rounding,
        "sentence": result.error.sentence,
    }


def line_of(run: dict[str, Any]) -> str:
    estimated = "not known" if np.isnan(run["estimated"]) else f"{run['estimated']:9.1e}"
    return (
        f"{run['name']:<20}{run['tolerance']:8.0e}  seed {run['seed']}  true {run['true']:8.1e}  "
        f"estimated {estimated:>9}  q {run['reliability']:8.1f}  {run['seconds']:6.1f} s  "
        f"{run['network']}"
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
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    known = [r for r in runs if np.isfinite(r["estimated"]) and np.isfinite(r["true"])]
    figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
    line = np.array([1e-16, 1.0])
    axes.fill_between(line, line / FACTOR, line * FACTOR, color="0.9", label="within a factor of 3")
    axes.loglog(line, line, color="0.5", linewidth=0.8)
    for at_rounding, label in ((False, "estimated"), (True, "upper bound, at rounding")):
        chosen = [r for r in known if r["at_rounding"] == at_rounding]
        if not chosen:
            continue
        x, y = ([r[key] for r in chosen] for key in ("true", "estimated"))
        axes.loglog(x, y, "v" if at_rounding else "o", markersize=4, alpha=0.7, label=label)
    axes.set_xlabel("true relative L2 error")
    axes.set_ylabel("estimated relative L2 error")
    axes.legend(frameon=False)
    for suffix in ("png", "pdf"):
        figure.savefig(RESULTS / f"tolerance.{suffix}", dpi=150)


if __name__ == "__main__":
    main()
