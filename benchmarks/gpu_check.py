"""Checks and measures everything that concerns GPUs and can be done on this machine.

Are the values of all collectives right when NCCL carries them, in every type, in every way of
running them? Do they stand in their place between XLA's kernels? Is the host ever blocked? What
are latency and bandwidth from 4 B to 1 GiB? One rank at first, then two ranks that share a GPU
(NCCL ≥ 2.30), and one rank per GPU where there are several.

    python benchmarks/gpu_check.py

starts processes of its own, takes five minutes at most, prints tables and writes
benchmarks/results/gpu_check.json. It uses what it finds: TensorFlow with sciml_par as it is (needs
an MPI library); or else JAX, which takes sciml_par's handlers by the same interface of XLA (needs
no MPI); or else CuPy alone. It ends with exit code 0 if something was checked and nothing was
wrong, and with 1 if something was wrong or nothing could be checked.

    python benchmarks/gpu_check.py --rehearse tensorflow

goes the same way on the CPU, carrying by MPI, to try the script itself. It says nothing of GPUs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpu.job import Job
from gpu.record import Budget
from gpu.report import exit_code, speed_table, summary, write_json
from gpu.session import Session

RESULTS = Path(__file__).parent / "results" / "gpu_check.json"
SECONDS = 300.0
PATIENCE = 90.0  # TensorFlow compiles kernels for some GPUs at their first use


def main() -> None:
    arguments = parsed(sys.argv[1:])
    if arguments.worker:
        from gpu.worker import work

        work(Job.parse(arguments.worker))
        return
    with tempfile.TemporaryDirectory() as folder:
        budget = Budget(arguments.budget)
        rehearse, patience = arguments.rehearse, arguments.patience
        rows = Session(Path(folder), budget, rehearse=rehearse, patience=patience).run()
    write_json(arguments.json, rows)
    measured = speed_table(rows)
    print(f"{measured}\n\n{summary(rows)}" if measured else f"\n{summary(rows)}")
    print(f"written to {arguments.json}")
    sys.exit(exit_code(rows))


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=SECONDS, help="seconds; 300 by default")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, help="seconds that one check may take; 90"
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to write the results")
    parser.add_argument(
        "--rehearse", choices=("tensorflow", "jax", "cupy"), help="on the CPU, to try this script"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
