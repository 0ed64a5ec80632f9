"""Time trainings of a whole solution on the processor and on the GPU of one machine.

    python benchmarks/devices.py [--threads 8] [NAME ...]

starts a process for each device and prints microseconds a step, the seconds of the whole `train`
(with compilation), and the relative error that each reaches. Beginnings of names are enough.
Writes benchmarks/results/devices.json.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

from _runner import RESULTS, on_ranks, parse, report

CASES = {
    "Adam, 64×3, 2,000 points, 32 bits": ("Adam", 500, 2_000, 64, "float32"),
    "Adam, 256×3, 50,000 points, 32 bits": ("Adam", 100, 50_000, 256, "float32"),
    "Adam, 256×3, 50,000 points, 64 bits": ("Adam", 50, 50_000, 256),
    "SSBroyden, 32×3, 10,000 points": ("SSBroyden", 300, 10_000, 32),
    "LM, 24×3, 3,000 points": ("LevenbergMarquardt", 60, 3_000, 24),
    "LM, 48×3, 20,000 points": ("LevenbergMarquardt", 12, 20_000, 48),
    "least squares, 2,000 features": (),
}
COLUMNS = {
    "training": "name:<36",
    "": "device:6",
    "µs a step": "microseconds:16,.0f",
    "train, s": "seconds:12.1f",
    "compile, s": "compile:12.1f",
    "error": "error:10.1e",
}


def main() -> None:
    options = parse(__doc__, names=CASES, threads=(8, "of the processor"))
    found: list[dict[str, Any]] = []
    for device, mask in (("GPU", {}), ("CPU", {"CUDA_VISIBLE_DEVICES": ""})):
        threads = options.threads if device == "CPU" else 1
        found += on_ranks(None, work, device, threads, options.names, threads=threads, **mask)
    report(COLUMNS, found, RESULTS / "devices.json")


def work(device: str, threads: int, names: list[str]) -> list[dict[str, Any]]:
    import tensorflow as tf
    from _examples import problem_named, two_scales

    import sciml_par as sp
    from sciml_par import networks, training

    if device == "GPU" and not tf.config.list_physical_devices("GPU"):
        sys.exit("devices.py: TensorFlow finds no GPU on this machine.")
    sp.init(threads=threads)
    warnings.simplefilter("ignore")
    least_squares = partial(
        sp.train,
        problem_named("poisson-two-scales", k=2),
        network=partial(networks.RandomFeatures, features=2000, scale=4.0),
        optimizer=training.LeastSquares(),
        points=training.Points(20_000, boundary=800, method="sobol"),
        precision="float64",
        progress=False,
    )
    rows = []
    for name in names:
        began, case = time.perf_counter(), CASES[name]
        member = (two_scales(*case) if case else least_squares()).members[0]
        rows.append(
            {
                "name": name,
                "device": device,
                "threads": threads,
                "seconds": time.perf_counter() - began,
                "microseconds": member.microseconds_per_step,
                "compile": member.seconds_compile,
                "steps": member.steps,
                "error": member.prediction.relative_l2_error,
            }
        )
    return rows


if __name__ == "__main__":
    main()
