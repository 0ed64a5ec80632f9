"""Problems that windows of random features solve: errors, seconds and memory on P ranks.

    python benchmarks/windows.py [NAME ...] [--estimate]
    mpirun -np 2 python benchmarks/windows.py two-scales-32

The problems are those of examples/ that are solved in windows, a Poisson equation in three
dimensions, and one in the square with a wave number of 32. A row has the weights of the output
layers, the relative error, the estimated one, the seconds of `train`, the processor seconds of all
ranks and their memory. Writes benchmarks/results/windows-P.json.
"""

from __future__ import annotations

import resource
import time
import warnings
from functools import cache, partial
from typing import Any

import numpy as np
from _examples import NAMES, example, problem_named
from _runner import RESULTS, measure, parse, seconds_of

import sciml_par as sp
from sciml_par.errors import ResultWarning
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.parallel.groups.world import current_world
from sciml_par.training import LeastSquares, Points

COLUMNS = {
    "problem": "name:<20",
    "windows": "windows:10",
    "features": "features:10",
    "ranks": "ranks:8",
    "weights": "weights:10,",
    "error": "error:9.1e",
    "estimated": "estimated:10.1e",
    "seconds": "seconds:11.1f",
    "CPU, s": "processor_seconds:9.1f",
    "GB": "gigabytes:7.1f",
}


@cache
def cases() -> dict[str, tuple[str, Windows, Any, dict[str, Any]]]:
    """Return, by name, a problem, its windows of random features, its points and parameters."""
    found = {}
    for name in NAMES:
        training = example(name).TRAINING
        if isinstance(training["network"], Windows):
            found[name] = (name, training["network"], training["points"], {})
    peak = Windows(partial(RandomFeatures, features=200, scale=5.0), parts=(4, 4, 4))
    found["poisson-3d"] = ("poisson-3d", peak, Points(60_000, boundary=20_000), {})
    fine = Windows(partial(RandomFeatures, features=200, scale=12.0), parts=(16, 16))
    points = Points(100_000, boundary=1_300)
    found["two-scales-32"] = ("poisson-two-scales", fine, points, {"k": 32})
    return found


def main() -> None:
    options = parse(__doc__, names=cases(), estimate=(False, "estimate the errors as well"))
    sp.init()
    warnings.simplefilter("ignore", ResultWarning)
    rows = [{"name": name, "ranks": sp.size()} for name in options.names]
    run = partial(measured, estimate=options.estimate)
    measure(rows, COLUMNS, run, file=RESULTS / f"windows-{sp.size()}.json")


def measured(name: str, ranks: int, estimate: bool) -> dict[str, Any]:
    """Solve a problem on all ranks, and return what it takes (collective)."""
    problem, network, points, parameters = cases()[name]
    problem = problem_named(problem, **parameters)
    before, began = seconds_of(resource.RUSAGE_SELF), time.perf_counter()
    result = sp.train(
        problem,
        network=network,
        optimizer=LeastSquares(),
        points=points,
        precision="float64",
        progress=False,
        estimate=estimate,
    )
    seconds = time.perf_counter() - began
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    here = [seconds_of(resource.RUSAGE_SELF) - before, gigabytes]
    total = np.sum(current_world().communicator.allgather_object(here), axis=0)
    parts = np.atleast_1d(network.parts)
    features = network.inner.keywords["features"]  # type: ignore[attr-defined]
    member = result.members[0] if sp.rank() == 0 else None
    return {
        "windows": "×".join(map(str, parts)),
        "features": features,
        "weights": int(np.prod(parts)) * (features + 1) * problem.outputs,
        "error": member and member.on_own_domain.relative_l2_error,
        "estimated": result.error.relative if estimate and member else float("nan"),
        "seconds": seconds,
        "processor_seconds": float(total[0]),
        "gigabytes": float(total[1]),
    }


if __name__ == "__main__":
    main()
