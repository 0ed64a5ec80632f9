"""Problems that windows of random features solve: errors, seconds and memory on P ranks.

    python benchmarks/windows.py [NAME ...] [--estimate]
    mpirun -np 2 python benchmarks/windows.py two-scales-32

The problems are those of examples/ that are solved in windows, a Poisson equation in three
dimensions, and one in the square with a wave number of 32. A row has the weights of the output
layers, the relative error, the estimated one, the seconds of `train`, the processor seconds of all
ranks and their memory. Writes benchmarks/results/windows-P.json.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from _examples import NAMES, example, problem_named
from _measuring import RESULTS, write_json

import sciml_par as sp
from sciml_par.errors import ResultWarning
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.parallel.groups.world import current_world
from sciml_par.training import LeastSquares, Points

LINE = "{:<20}{:>10}{:>10}{:>8}{:>10}{:>9}{:>10}{:>11}{:>9}{:>7}"


@dataclass(frozen=True)
class Case:
    """A problem with windows of random features, and its points."""

    problem: str
    network: Windows
    points: Points | int
    parameters: dict[str, Any] = field(default_factory=dict)


def cases() -> dict[str, Case]:
    """Return all cases by name."""
    found = {}
    for name in NAMES:
        training = example(name).TRAINING
        if isinstance(training["network"], Windows):
            found[name] = Case(name, training["network"], training["points"])
    peak = Windows(partial(RandomFeatures, features=200, scale=5.0), parts=(4, 4, 4))
    found["poisson-3d"] = Case("poisson-3d", peak, Points(60_000, boundary=20_000))
    fine = Windows(partial(RandomFeatures, features=200, scale=12.0), parts=(16, 16))
    points = Points(100_000, boundary=1_300)
    found["two-scales-32"] = Case("poisson-two-scales", fine, points, {"k": 32})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(cases())}")
    parser.add_argument("--estimate", action="store_true", help="estimate the errors as well")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in cases()]:
        parser.error(f"expected names of {', '.join(cases())}; got {unknown[0]!r}")
    sp.init()
    warnings.simplefilter("ignore", ResultWarning)
    rows = []
    if sp.rank() == 0:
        print(
            LINE.format(
                "problem", "windows", "features", "ranks", "weights", "error", "estimated",
                "seconds", "CPU, s", "GB",
            )
        )  # fmt: skip
    for name in options.names or cases():
        rows.append(measured(name, cases()[name], options.estimate))
        if sp.rank() == 0:
            print(line_of(rows[-1]), flush=True)
            write_json(RESULTS / f"windows-{sp.size()}.json", {"rows": rows}, quiet=True)


def measured(name: str, case: Case, estimate: bool) -> dict[str, Any]:
    """Solve a problem on all ranks, and return what it takes (collective)."""
    problem = problem_named(case.problem, **case.parameters)
    before, began = _processor_seconds(), time.perf_counter()
    result = sp.train(
        problem,
        network=case.network,
        optimizer=LeastSquares(),
        points=case.points,
        precision="float64",
        progress=False,
        estimate=estimate,
    )
    seconds = time.perf_counter() - began
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    here = [_processor_seconds() - before, gigabytes]
    everyone = current_world().communicator.allgather_object(here)
    total = [sum(each) for each in zip(*everyone, strict=True)]
    parts: Any = np.atleast_1d(case.network.parts).tolist()
    features = case.network.inner.keywords["features"]  # type: ignore[attr-defined]
    member = result.members[0] if sp.rank() == 0 else None
    return {
        "name": name,
        "parts": parts,
        "features": features,
        "ranks": sp.size(),
        "weights": int(np.prod(parts)) * (features + 1) * problem.outputs,
        "error": member and member.on_own_domain.relative_l2_error,
        "estimated": result.error.relative if estimate and member else float("nan"),
        "seconds": seconds,
        "processor_seconds": total[0],
        "gigabytes": total[1],
    }


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def line_of(row: dict[str, Any]) -> str:
    """Return a line of the table."""
    return LINE.format(
        row["name"],
        "×".join(map(str, row["parts"])),
        row["features"],
        row["ranks"],
        f"{row['weights']:,}",
        f"{row['error']:.1e}",
        f"{row['estimated']:.1e}",
        f"{row['seconds']:.1f}",
        f"{row['processor_seconds']:.1f}",
        f"{row['gigabytes']:.1f}",
    )


if __name__ == "__main__":
    main()
