"""Estimate π: four times the share of random points of the unit square with x² + y² < 1.

The samples are divided into chunks, each with separate random numbers. So any number of ranks
draws the same points and finds the same π. The ranks communicate once, to add up their hits.

    mpirun -np 2 python scripts/pi.py
    python scripts/pi.py --ranks 1,2,4,8
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciml_par import programs, rank, size
from sciml_par.parallel import Sum, allreduce, barrier

CHUNK = 1 << 16  # samples; their coordinates fit into a core's cache


@dataclass(kw_only=True)
class Options(programs.ScalingStudyOptions):
    samples: programs.PositiveInteger = 200_000_000
    """points drawn by all ranks together"""
    seed: programs.NaturalNumber = 0
    """of the random numbers"""


def count_hits(chunk: int, samples: int, seed: int) -> int:
    x, y = np.random.default_rng([seed, chunk]).random((2, samples))
    return np.count_nonzero(x * x + y * y < 1.0)


def measure(options) -> programs.Record:
    n, chunks = options.samples, -(-options.samples // CHUNK)
    allreduce(np.int64(0), Sum)  # the first collective sets up connections
    barrier()
    start = time.perf_counter()
    mine = 0
    for chunk in range(rank(), chunks, size()):
        mine += count_hits(chunk, min(CHUNK, n - chunk * CHUNK), options.seed)
    hits = int(allreduce(np.int64(mine), Sum))
    return {"samples": n, "hits": hits, "seconds": time.perf_counter() - start}


def show(options, records: list[programs.Record], folder: Path) -> None:
    ranks, seconds = ([record[name] for record in records] for name in ("ranks", "seconds"))
    rows = []
    for record, speed in zip(records, programs.speed_up(ranks, seconds), strict=True):
        (pi, error), p, n = estimate(record), record["ranks"], record["samples"]
        times = f"{record['seconds']:.3f} {speed:.2f} {speed / p:.2f}"
        found = f"{pi:.8f} {pi - math.pi:+.1e} {error:.1e}"
        rows.append(f"{p} {n:,} {times} {found}".split())
    headings = ["ranks", "samples", "seconds", "speed-up", "efficiency", "π", "error", "std. error"]
    programs.print_table(headings, rows)


def estimate(record: programs.Record) -> tuple[float, float]:
    """Return π, and the standard error 4 √(p (1 − p) / n) of a share p of n samples."""
    n = record["samples"]
    share = record["hits"] / n
    return 4.0 * share, 4.0 * math.sqrt(share * (1.0 - share) / n)


def main() -> None:
    programs.run_scaling_study(Options.parse(__doc__), measure, show)


if __name__ == "__main__":
    programs.run(main)
