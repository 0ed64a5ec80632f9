"""How often intervals of `Result.uncertainty` hold the truth: five inverse problems with noise.

    python benchmarks/coverage.py [NAME ...] [--noise 0.01 0.05 0.2] [--sets 1000] [--block 200]
    python benchmarks/coverage.py diffusion reaction --posterior
    python benchmarks/coverage.py --quick

For each problem and noise, one training on data without errors, and from there a member on each
of many data sets, stacked. A row has the share of data sets whose intervals of 68 and 95 % hold
the truth, next to the same for least squares with the exact solution; the mean width of intervals
and the spread of the estimates over their Cramér–Rao bound; and by how many deviations estimates
are off those of least squares with the exact solution (root mean square). With --posterior, one
data set each, next to Hamiltonian Monte Carlo with the exact solution. Writes
benchmarks/results/coverage.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from _coverage_intervals import (
    Intervals,
    by_the_exact_solution,
    by_the_package,
    data_sets,
    truth_and_bound,
)
from _coverage_posterior import QUANTILES, sample
from _coverage_problems import CASES, Case
from _coverage_statistics import summary
from _coverage_training import train_members, train_start
from _measuring import RESULTS, write_json

import sciml_par as sp

LINE = "{:<15}{:>6}  {:<10}{:>9}{:>8}{:>10}{:>8}{:>8}{:>8}{:>8}{:>9}"
POSTERIOR = "{:<15}{:>6}  {:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}"
HEAD = LINE.format(
    "problem", "noise", "quantity", "68 %", "95 %", "exact 68", "95 %", "width", "spread", "off",
    "seconds",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.01, 0.05, 0.2])
    parser.add_argument("--sets", type=int, default=1000, help="data sets of a problem and noise")
    parser.add_argument("--block", type=int, default=200, help="data sets trained as one")
    parser.add_argument("--seed", type=int, default=0, help="of weights and errors")
    parser.add_argument("--posterior", action="store_true", help="Monte Carlo on one data set")
    parser.add_argument("--quick", action="store_true", help="one noise and few data sets")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in CASES]:
        parser.error(f"expected names of {', '.join(CASES)}; got {unknown[0]!r}")
    if options.quick:
        options.noise, options.sets, options.block = [0.05], 4, 4
    sp.init()
    if options.posterior:
        posteriors(options)
        return
    found: list[dict[str, Any]] = []
    print(HEAD)
    for name in options.names or CASES:
        for noise in options.noise:
            found.append(measured(CASES[name](), noise, options))
            for row in found[-1]["rows"]:
                print(line_of(found[-1], row), flush=True)
            write_json(RESULTS / "coverage.json", {"settings": found}, quiet=True)
    print(f"written to {RESULTS / 'coverage.json'}")


def posteriors(options: argparse.Namespace) -> None:
    """Print intervals of one data set next to those of Hamiltonian Monte Carlo."""
    print(POSTERIOR.format("problem", "noise", "", "mean", "deviation", *QUANTILES, "seconds"))
    for name in options.names or ("diffusion", "reaction"):
        case = CASES[name]()
        for noise in options.noise:
            for row in posterior(case, noise, options.seed):
                print(POSTERIOR.format(name, f"{100 * noise:g} %", *row), flush=True)


def posterior(case: Case, noise: float, seed: int) -> list[tuple[str, ...]]:
    """Return a row for the first unknown by the package, and one by Monte Carlo."""
    sigma = case.deviation(noise)
    data = data_sets(case, sigma, 1, seed)
    start = train_start(case, sigma, seed)
    result = train_members(case, start, data, sigma, seed)
    began = time.perf_counter()
    ends = [result.uncertainty(level).bounds[0] for level in (0.95, 0.68)]
    linear = result.uncertainty()
    seconds = result.members[0].linearized.seconds + time.perf_counter() - began
    (low, high), (inner_low, inner_high) = ends
    value = float(linear.values[0])
    fits = by_the_exact_solution(case, data, sigma)
    drawn = sample(
        lambda c: case.solution(c, case.places).reshape(len(c), -1),
        data.reshape(1, -1),
        sigma,
        np.concatenate([linear.values, case.true[len(case.unknowns) :]]),
        _scale(case, fits),
        seed,
    )
    k = drawn.draws[..., 0].ravel()
    mine = [value, linear.deviations[0], low, inner_low, value, inner_high, high]
    theirs = [k.mean(), k.std(ddof=1), *np.quantile(k, QUANTILES)]
    monte_carlo = f"Monte Carlo, R̂ {drawn.rhat:.3f}"
    return [
        ("linearized", *(f"{each:.5f}" for each in mine), f"{seconds:.1f}"),
        (monte_carlo, *(f"{each:.5f}" for each in theirs), f"{drawn.seconds:.1f}"),
    ]


def _scale(case: Case, fits: Intervals) -> Any:
    """Return the size of a step of each coefficient."""
    known = fits.deviations[0, : len(case.unknowns)]
    return np.concatenate([known, np.full(len(case.others), known.mean())])


def measured(case: Case, noise: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return what one problem with one noise gives."""
    sigma = case.deviation(noise)
    data = data_sets(case, sigma, options.sets, options.seed)
    start = train_start(case, sigma, options.seed)
    mine, seconds = by_the_package(
        case, start, data, sigma, block=min(options.block, options.sets), seed=options.seed
    )
    exact = by_the_exact_solution(case, data, sigma)
    true, bound = truth_and_bound(case, sigma)
    q = len(case.unknowns)
    groups = {name: np.array([i]) for i, name in enumerate(case.unknowns)}
    groups["bands"] = np.arange(q, len(true))
    rows = [
        {"quantity": name, **compared(mine, exact, true, bound, chosen)}
        for name, chosen in groups.items()
    ]
    return {
        "name": case.name,
        "noise": noise,
        "sigma": sigma,
        "sets": options.sets,
        "seconds": {"first training": start.seconds, **seconds},
        "rows": rows,
    }


def compared(
    mine: Intervals, exact: Intervals, true: Any, bound: Any, chosen: Any
) -> dict[str, Any]:
    """Return coverage, widths and spread of some quantities, [k] each."""

    def of(each: Intervals) -> dict[str, Any]:
        ends = {level: e[:, chosen] for level, e in each.ends.items()}
        values, deviations = each.values[:, chosen], each.deviations[:, chosen]
        return summary(values, deviations, ends, true[chosen], bound[chosen])

    off = (mine.values - exact.values)[:, chosen] / bound[chosen]
    return {
        **of(mine),
        "off": np.sqrt(np.mean(off**2, axis=0)).tolist(),
        "exact": of(exact),
        "bound": bound[chosen].tolist(),
        "true": true[chosen].tolist(),
    }


def line_of(setting: dict[str, Any], row: dict[str, Any]) -> str:
    """Return a line of the table, with means over the points of bands."""

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    return LINE.format(
        setting["name"],
        f"{100 * setting['noise']:g} %",
        row["quantity"],
        *(f"{100 * mean(row['coverage'][level]):.1f}" for level in ("0.68", "0.95")),
        *(f"{100 * mean(row['exact']['coverage'][level]):.1f}" for level in ("0.68", "0.95")),
        f"{mean(row['width']):.3f}",
        f"{mean(row['spread']):.3f}",
        f"{max(row['off']):.0e}",
        f"{sum(v for k, v in setting['seconds'].items() if k != 'first training'):.3f}",
    )


if __name__ == "__main__":
    main()
