"""How often intervals of `Result.uncertainty` hold the truth: five inverse problems with noise.

    python benchmarks/coverage.py [NAME ...] [--noise 0.01 0.05 0.2] [--sets 1000] [--block 200]
    python benchmarks/coverage.py --quick

For each problem and noise, one training on data without errors, and from there a member on each
of many data sets, stacked. A row has the share of data sets whose intervals of 68 and 95 % hold
the truth, next to the same for least squares with the exact solution; the mean width of intervals
and the spread of the estimates over their Cramér–Rao bound; and by how many deviations estimates
are off those of least squares with the exact solution (root mean square). Writes
benchmarks/results/coverage.json.
"""

from __future__ import annotations

import itertools
import time
import warnings
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import _coverage_statistics as statistics
import numpy as np
import numpy.typing as npt
from _coverage_problems import CASES, Case
from _coverage_statistics import LEVELS
from _runner import RESULTS, line, measure, parse

import sciml_par as sp
from sciml_par.problems import Problem
from sciml_par.training import Ensemble, LevenbergMarquardt
from sciml_par.training.weights.of_noise import DataFirst, weights_of_noise

FloatArray = npt.NDArray[np.float64]

OBSERVATIONS = "observations"
DAMPING = 1e-8
"""Of Levenberg–Marquardt from a trained network, near to Gauss–Newton."""

STAGES = 10
"""Steps until the observations weigh as little as at the end."""

COLUMNS = {
    "problem": "name:<15",
    "noise, %": "percent:8g",
    "quantity": "quantity:10",
    "68 %": "0.68:9.1f",
    "95 %": "0.95:8.1f",
    "exact 68": "exact 0.68:10.1f",
    " 95 %": "exact 0.95:8.1f",
    "width": "width:8.3f",
    "spread": "spread:8.3f",
    "off": "off:8.0e",
    "seconds": "seconds:9.3f",
}


def main() -> None:
    noise = {"type": float, "nargs": "+", "default": [0.01, 0.05, 0.2]}
    options = parse(
        __doc__,
        names=CASES,
        noise=noise,
        sets=(1000, "data sets of a problem and noise"),
        block=(200, "data sets trained as one"),
        seed=(0, "of weights and errors"),
        quick=(False, "one noise and few data sets"),
    )
    if options.quick:
        options.noise, options.sets, options.block = [0.05], 4, 4
    sp.init()
    print(line(COLUMNS))

    def run(name: str, noise: float) -> dict[str, Any]:
        found = measured(CASES[name], noise, options)
        for row in found["rows"]:
            of = {"name": name, "percent": 100 * noise}
            print(line(COLUMNS, of | means(row, found["seconds"])), flush=True)
        return found

    pairs = itertools.product(options.names, options.noise)
    cases = [{"name": name, "noise": noise} for name, noise in pairs]
    measure(cases, {}, run, file=RESULTS / "coverage.json")


def measured(case: Case, noise: float, options: Namespace) -> dict[str, Any]:
    sigma = case.deviation(noise)
    data = data_sets(case, sigma, options.sets, options.seed)
    start = train_start(case, sigma, options.seed)
    block = min(options.block, options.sets)
    mine, seconds = by_the_package(case, start, data, sigma, block=block, seed=options.seed)
    exact, q = by_the_exact_solution(case, data, sigma), len(case.unknowns)
    c = case.true[None]
    covariances = statistics.covariances(observed_by(case), c, sigma)
    true, bound = (each[0] for each in of_all(case, c, covariances))
    groups = {name: np.array([i]) for i, name in enumerate(case.unknowns)}
    groups["bands"] = np.arange(q, len(true))
    rows = [
        {"quantity": name, **compared(mine, exact, true, bound, chosen)}
        for name, chosen in groups.items()
    ]
    seconds = {"first training": start.seconds, **seconds}
    return {"sigma": sigma, "sets": options.sets, "seconds": seconds, "rows": rows}


def compared(mine: Intervals, exact: Intervals, true: Any, bound: Any, chosen: Any) -> Any:
    """Return coverage, widths and spread of some quantities, [k] each."""

    def of(each: Intervals) -> dict[str, Any]:
        ends = {level: e[:, chosen] for level, e in each.ends.items()}
        values, deviations = each.values[:, chosen], each.deviations[:, chosen]
        return statistics.summary(values, deviations, ends, true[chosen], bound[chosen])

    off = (mine.values - exact.values)[:, chosen] / bound[chosen]
    return {
        **of(mine),
        "off": np.sqrt(np.mean(off**2, axis=0)).tolist(),
        "exact": of(exact),
        "bound": bound[chosen].tolist(),
        "true": true[chosen].tolist(),
    }


def means(row: dict[str, Any], seconds: dict[str, float]) -> dict[str, Any]:
    """Return what the table has of a row: means over the points of bands."""
    parts = {"": row, "exact ": row["exact"]}
    shares = {
        f"{who}{level:g}": 100 * float(np.mean(part["coverage"][f"{level:g}"]))
        for who, part in parts.items()
        for level in LEVELS
    }
    return {
        **{"quantity": row["quantity"], **shares, "off": max(row["off"])},
        **{name: float(np.mean(row[name])) for name in ("width", "spread")},
        "seconds": sum(v for k, v in seconds.items() if k != "first training"),
    }


@dataclass(frozen=True)
class Start:
    """A training on data without errors: weights, unknowns, and the weight of observations."""

    weights: list[FloatArray]
    unknowns: dict[str, float]
    weights_of_data: dict[str, float]
    seconds: float


def common(case: Case, seed: int) -> dict[str, Any]:
    of_all = {"precision": "float64", "grow": False, "progress": False}
    return {"points": case.points, "seed": seed, **of_all}


def train_start(case: Case, sigma: float, seed: int) -> Start:
    """Train on data without errors from the start values of the unknowns, 1.5 times too large."""
    problem = case.problem(case.observed, sigma, {n: 1.5 * v for n, v in case.unknowns.items()})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*where 1 is likely")  # of data without errors
        result = sp.train(
            problem,
            network=case.network,
            optimizer=LevenbergMarquardt(),
            steps=case.steps,
            **common(case, seed),
        )
    weighed = problem.with_condition_weight(LevenbergMarquardt.condition_weight)
    return Start(
        [np.asarray(v.numpy()) for v in result.networks[0].trainable_variables],
        {name: float(result.unknowns[name].mean) for name in case.unknowns},
        weights_of_noise(weighed, {}),
        time.perf_counter() - began,
    )


def train_members(case: Case, start: Start, data: FloatArray, sigma: float, seed: int) -> Any:
    problem = case.problem(case.observed, sigma, start.unknowns)
    problem = problem.with_term_weights(start.weights_of_data)

    def network(d: int, m: int, **options: Any) -> Any:
        model = case.network(d, m, **options)
        for variable, value in zip(model.trainable_variables, start.weights, strict=True):
            variable.assign(value)
        return model

    def with_data(u: FloatArray) -> Problem:
        """Return the problem with other observed values, traced once for all data sets."""
        (term,) = (each for each in problem.terms if each.name == OBSERVATIONS)
        x, _, *errors = term.points(1)
        return problem.with_arrays(OBSERVATIONS, (x, u, *errors))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss that hardly falls is what is expected here
        result = sp.train(
            problem,
            mode=Ensemble(members=len(data), problems=lambda i: with_data(data[i])),
            network=network,
            optimizer=LevenbergMarquardt(damping=DAMPING),
            steps=case.more_steps,
            **common(case, seed),
            evaluation_points=4,
            weights=DataFirst(tuple(start.weights_of_data), stages=STAGES, every=1),
            uncertainty=True,
        )
    stacked = {len(member.stacked_with) for member in result.members}
    if stacked != {len(data)}:
        raise RuntimeError(f"expected one stack of {len(data)} members; got stacks of {stacked}")
    return result


@dataclass(frozen=True)
class Intervals:
    """Of B data sets, the unknowns [q] first and then the solution at the points of bands [k].

    Attributes
    ----------
    values, deviations : [B, q + k].
    ends : of the intervals by level, [B, q + k, 2] each.
    """

    values: FloatArray
    deviations: FloatArray
    ends: dict[float, FloatArray]


def data_sets(case: Case, sigma: float, number: int, seed: int) -> FloatArray:
    shape = (number, *case.observed.shape)
    return case.observed + sigma * np.random.default_rng([seed, 5]).normal(size=shape)


def by_the_package(
    case: Case, start: Start, data: FloatArray, sigma: float, *, block: int, seed: int
) -> tuple[Intervals, dict[str, float]]:
    """Return the intervals of `Result.uncertainty`, and seconds a data set."""
    parts, linearized, trained, read = [], 0.0, 0.0, 0.0
    for first in range(0, len(data), block):
        began = time.perf_counter()
        result = train_members(case, start, data[first : first + block], sigma, seed)
        trained += time.perf_counter() - began
        began = time.perf_counter()
        parts += [of_member(case, result, number) for number in range(len(result.members))]
        read += time.perf_counter() - began
        linearized += sum(member.linearized.seconds for member in result.members)
    spent = {"training": trained - linearized, "linearization": linearized, "bands": read}
    values, deviations, ends = zip(*parts, strict=True)
    joined = {level: np.stack([each[level] for each in ends]) for level in LEVELS}
    seconds = {name: each / len(data) for name, each in spent.items()}
    return Intervals(np.stack(values), np.stack(deviations), joined), seconds


def of_member(case: Case, result: Any, number: int) -> tuple[Any, Any, dict[float, Any]]:
    values = np.array([result.members[number].unknowns[name] for name in case.unknowns]).ravel()
    ends = {}
    for level in LEVELS:
        found = result.uncertainty(level, member=number)
        if not found.known:
            raise RuntimeError(f"member {number}: {found.reason}")
        columns = case.observed.shape[1]
        lower, upper = (each[:, :columns].ravel() for each in found.bands(case.bands))
        ends[level] = np.concatenate([found.bounds, np.stack([lower, upper], axis=1)])
    reach = (upper - lower) / 2 / statistics.half_width(level)
    values = np.concatenate([values, (lower + upper) / 2])
    return values, np.concatenate([found.deviations, reach]), ends


def by_the_exact_solution(case: Case, data: FloatArray, sigma: float) -> Intervals:
    """Return estimate ± z · deviation of least squares with the exact solution."""
    flat = data.reshape(len(data), -1)
    fits = statistics.least_squares(observed_by(case), flat, sigma, case.true)
    values, deviations = of_all(case, fits.estimates, fits.covariances)
    return Intervals(values, deviations, statistics.symmetric(values, deviations))


def observed_by(case: Case) -> statistics.Model:
    return lambda c: case.solution(c, case.places).reshape(len(c), -1)


def of_all(case: Case, c: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and deviations of unknowns and bands from those of all coefficients."""

    def quantities(each: FloatArray) -> FloatArray:
        bands = case.solution(each, case.bands).reshape(len(each), -1)
        return np.concatenate([each[:, : len(case.unknowns)], bands], axis=1)

    s = statistics.sensitivity(quantities, c)
    return quantities(c), np.sqrt(np.einsum("bki,bij,bkj->bk", s, covariances, s))


if __name__ == "__main__":
    main()
