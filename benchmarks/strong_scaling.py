"""Steps of trainings whose points are divided over the ranks, and the machine's own limit.

    python benchmarks/strong_scaling.py

runs one rank, two ranks, and two processes that do not communicate and each do the work of one
rank: two ranks cannot be faster than twice these. Prints milliseconds a step with one thread a
rank, and writes benchmarks/results/strong_scaling.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial

from _measuring import RESULTS, write_json

CASES = {
    "Adam, 64×3, 20,000 points": ("Adam", 64, 20_000, 30),
    "Levenberg–Marquardt, 24×3 (1,297), 3,000 points": ("LevenbergMarquardt", 24, 3_000, 15),
    "Levenberg–Marquardt, 35×3 (2,661), 12,000 points": ("LevenbergMarquardt", 35, 12_000, 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().worker:
        return work()
    one, two = answer(started(1)), answer(started(2))
    others = [started(1), started(1)]
    together = [answer(each) for each in others]
    rows = []
    print(f"{'':50}{'1 rank':>10}{'2 ranks':>10}{'speed-up':>10}{'two alone':>11}")
    for name in CASES:
        limit = max(each[name] for each in together)
        rows.append({"name": name, "one": one[name], "two": two[name], "side_by_side": limit})
        print(
            f"{name:50}{one[name]:7.1f} ms{two[name]:7.1f} ms{one[name] / two[name]:10.2f}"
            f"{limit:8.1f} ms"
        )
    write_json(RESULTS / "strong_scaling.json", {"rows": rows})


def started(ranks: int) -> subprocess.Popen[str]:
    """Start the trainings on some ranks, with one thread each."""
    program = [sys.executable, __file__, "--worker"]
    return subprocess.Popen(
        ["mpirun", "-np", str(ranks), *program],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def answer(process: subprocess.Popen[str]) -> dict[str, float]:
    """Return milliseconds a step by case."""
    out, _ = process.communicate()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    found: dict[str, float] = json.loads(lines[-1])
    return found


def work() -> None:
    """Train, and let rank 0 print the milliseconds a step."""
    from _examples import problem_named

    import sciml_par as sp
    from sciml_par import networks, training

    sp.init()
    found = {}
    for name, (optimizer, width, points, steps) in CASES.items():
        result = sp.train(
            problem_named("poisson-two-scales", k=2),
            network=partial(networks.MLP, width=width, depth=3),
            optimizer=getattr(training, optimizer)(),
            steps=steps,
            points=training.Points(points, boundary=400, method="sobol"),
            precision="float64",
            progress=False,
        )
        found[name] = result.members[0].microseconds_per_step / 1e3
    if sp.rank() == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
