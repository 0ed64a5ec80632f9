"""Time trainings of a whole solution on the processor and on the GPU of one machine.

    python benchmarks/devices.py [--threads 8] [NAME ...]

starts a process for each device and prints microseconds a step, the seconds of the whole `train`
(with compilation), and the relative error that each reaches. Writes
benchmarks/results/devices.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from _measuring import RESULTS, write_json

LINE = "{:<34}{:>6}{:>16}{:>12}{:>12}{:>10}"


def cases() -> dict[str, Callable[[Any], Any]]:
    """Return the trainings by name; each takes `sciml_par` and solves a problem."""

    def poisson(sp: Any, optimizer: str, steps: int, points: int, width: int, **more: Any) -> Any:
        from _examples import problem_named

        from sciml_par import networks, training

        return sp.train(
            problem_named("poisson-two-scales", k=2),
            network=partial(networks.MLP, width=width, depth=3),
            optimizer=getattr(training, optimizer)(),
            steps=steps,
            points=training.Points(points, boundary=400, method="sobol"),
            progress=False,
            **more,
        )

    def least_squares(sp: Any) -> Any:
        from _examples import problem_named

        from sciml_par import networks, training

        return sp.train(
            problem_named("poisson-two-scales", k=2),
            network=partial(networks.RandomFeatures, features=2000, scale=4.0),
            optimizer=training.LeastSquares(),
            points=training.Points(20_000, boundary=800, method="sobol"),
            precision="float64",
            progress=False,
        )

    double = {"precision": "float64"}
    return {
        "Adam, 64×3, 2,000 points, 32 bits": lambda sp: poisson(sp, "Adam", 500, 2_000, 64),
        "Adam, 256×3, 50,000 points, 32 bits": lambda sp: poisson(sp, "Adam", 100, 50_000, 256),
        "Adam, 256×3, 50,000 points, 64 bits": lambda sp: poisson(
            sp, "Adam", 50, 50_000, 256, **double
        ),
        "SSBroyden, 32×3, 10,000 points": lambda sp: poisson(
            sp, "SSBroyden", 300, 10_000, 32, **double
        ),
        "LM, 24×3, 3,000 points": lambda sp: poisson(
            sp, "LevenbergMarquardt", 60, 3_000, 24, **double
        ),
        "LM, 48×3, 20,000 points": lambda sp: poisson(
            sp, "LevenbergMarquardt", 12, 20_000, 48, **double
        ),
        "least squares, 2,000 features": least_squares,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names; all")
    parser.add_argument("--threads", type=int, default=8, help="of the processor")
    parser.add_argument("--worker", choices=("GPU", "CPU"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.names)
    print(LINE.format("", "", "µs a step", "train, s", "compile, s", "error"), flush=True)
    found = []
    for device, mask in (("GPU", {}), ("CPU", {"CUDA_VISIBLE_DEVICES": ""})):
        count = str(options.threads if device == "CPU" else 1)
        command = [sys.executable, __file__, "--worker", device, *options.names]
        environment = {**os.environ, **mask, "OMP_NUM_THREADS": count}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, encoding="utf-8", env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                row = {"device": device, "threads": count, **json.loads(line)}
                found.append(row)
                print(line_of(row), flush=True)
    write_json(RESULTS / "devices.json", {"rows": found})


def work(device: str, names: list[str]) -> None:
    """Solve each problem on the device of this process, and print the figures."""
    import tensorflow as tf

    import sciml_par as sp

    if device == "GPU" and not tf.config.list_physical_devices("GPU"):
        sys.exit("devices.py: TensorFlow finds no GPU on this machine.")
    sp.init(threads=int(os.environ["OMP_NUM_THREADS"]))
    warnings.simplefilter("ignore")
    for name, solve in cases().items():
        if names and not any(name.startswith(each) for each in names):
            continue
        began = time.perf_counter()
        member = solve(sp).members[0]
        row = {
            "name": name,
            "seconds": time.perf_counter() - began,
            "microseconds": member.microseconds_per_step,
            "compile": member.seconds_compile,
            "steps": member.steps,
            "error": member.prediction.relative_l2_error,
        }
        print(json.dumps(row), flush=True)


def line_of(row: dict[str, Any]) -> str:
    """Return a line of the table."""
    return LINE.format(
        row["name"],
        row["device"],
        f"{row['microseconds']:,.0f}",
        f"{row['seconds']:.1f}",
        f"{row['compile']:.1f}",
        f"{row['error']:.1e}",
    )


if __name__ == "__main__":
    main()
