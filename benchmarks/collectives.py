"""Compare the speed of collectives with bare mpi4py on buffers of the same length, in one run.

Two ranks of one host. The candidates of a comparison are timed in turns: a block of each, every
block after a barrier, over and over. A figure is the median of the blocks on the slower rank, and
what counts are the ratios. The bare allreduce writes into the same buffer each time; those of
sciml_par give a new tensor each time, and its price is in the figures.

    python benchmarks/collectives.py [--quick]

starts its own mpirun, prints a table of targets and figures and writes
benchmarks/results/collectives.json (with --quick, fewer blocks and no file).

    python benchmarks/collectives.py --device gpu [--ranks N]

measures latency and bandwidth from 4 B to 1 GiB instead, by NCCL and by MPI, in every context, and
how early a call returns; on as many ranks as there are GPUs. `--device cpu` does the same by MPI
in the host's memory. The file is collectives_gpu.json or collectives_cpu.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _by_size
import numpy as np
from _runner import (
    RESULTS,
    Candidate,
    in_turns,
    on_ranks,
    parse,
    repeated,
    report,
    slowest,
    write_json,
)

import sciml_par.parallel as sp
from sciml_par._tensorflow import tf

RANKS = 2
ROUNDS, QUICK_ROUNDS = 41, 9

SHORT, MEDIUM, LONG = 321, 1 << 18, 1 << 24
"""Numbers of float32: a small network's gradient, 1 MiB, 64 MiB."""

LOOPS = 2000
MANY, EACH = 200, 1000
MANY_LOOPS = 200
"""So many that what the call of a program with 200 operands costs does not count, only the loop."""

Candidates = dict[str, Candidate]
"""The timed cases, each per collective."""


def main() -> None:
    options = parse(
        __doc__,
        quick=(False, "fewer blocks and sizes, no file"),
        device=({"choices": ("cpu", "gpu")}, "measure by size on this device"),
        ranks=(int, "with --device: how many; one per GPU by default"),
    )
    device = options.device
    if device is None:
        found = on_ranks(RANKS, work, QUICK_ROUNDS if options.quick else ROUNDS)
        show(found)
    else:
        ranks = options.ranks or _by_size.default_ranks(device)
        found = on_ranks(ranks, _by_size.measure_sizes, device, options.quick)
        print(_by_size.tables(found))
    if not options.quick:
        write_json(RESULTS / f"collectives{f'_{device}' if device else ''}.json", found)


def show(times: dict[str, dict[str, float]]) -> None:
    """Print all times, and the targets: what a figure must be at least (≥) or at most (≤)."""
    for case, candidates in times.items():
        print()
        first = next(iter(candidates.values()))
        columns = {case: "name:<58", "µs": "us:11.1f", "÷ first": "ratio:9.2f"}
        rows = [{"name": f"  {n}", "us": us, "ratio": us / first} for n, us in candidates.items()]
        report(columns, rows)
    long, medium, short = (times[f"{size}, eager"] for size in ("64 MiB", "1 MiB", "321 floats"))
    loop, eager = times["321 floats, compiled loop"], times["200 × 1,000 floats, eager"]
    fused, checked = times["200 × 1,000 floats, compiled loop"], times["321 floats, checks"]
    added = loop["Sum in the loop"] - loop["mpi4py, Sum"]
    targets = [
        *((f"{size}, eager {op}: bandwidth ÷ bare", of["mpi4py, Sum"] / of[op], "≥", least)
          for size, of, least in (("64 MiB", long, 0.9), ("1 MiB", medium, 0.8))
          for op in ("Sum", "Average")),
        *((f"321 floats, eager {op}: µs", short[op], "≤", 60) for op in ("Sum", "Average")),
        ("321 floats, compiled loop: µs more than bare", added, "≤", 8),
        ("fusion in a compiled loop ÷ one tensor", fused["fused"] / fused["one"], "≤", 1.3),
        ("fusion, eager ÷ one tensor", eager["fused"] / eager["one"], "≤", 1.3),
        ("agreed on before ÷ no check at all", checked["later"] / checked["never"], "≤", 1.1),
    ]  # fmt: skip
    rows = []
    for text, figure, sign, bound in targets:
        met = figure >= bound if sign == "≥" else figure <= bound
        row = {"target": f"  {text}", "bound": f"{sign} {bound:g}", "figure": figure}
        rows.append(row | {"met": "yes" if met else "NO"})
    print()
    columns = {"target": "target:<58", "": "bound:9", "figure": "figure:9.2f", "met": "met:5"}
    report(columns, rows)


def work(rounds: int) -> dict[str, dict[str, float]]:
    """Measure on all ranks (collective)."""
    sp.init()
    return {case: slowest(in_turns(make(), rounds)) for case, make in CASES.items()}


def bare(count: int) -> Callable[[], None]:
    """Return MPI's allreduce between two arrays, by mpi4py alone."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    source, target = np.ones(count, np.float32), np.empty(count, np.float32)
    return lambda: comm.Allreduce(source, target)


def eager(count: int, times: int) -> Candidates:
    """Time eager allreduces one after another."""
    x = tf.ones([count])
    return {
        "mpi4py, Sum": repeated(bare(count), times),
        "Sum": repeated(lambda: sp.allreduce(x, sp.Sum), times),
        "Average": repeated(lambda: sp.allreduce(x), times),
    }


def looped(step: Callable[[Any], Any], start: Any, times: int) -> Candidate:
    """Time a while loop of `step`, compiled by XLA."""

    @tf.function(jit_compile=True)
    def run(x: Any) -> Any:
        last = tf.while_loop(lambda i, _: i < times, lambda i, y: (i + 1, step(y)), (0, x))[1]
        return tf.concat(last, axis=0) if isinstance(last, list) else last

    return repeated(lambda: run(start).numpy(), 1, each=times)


def compiled_loop() -> Candidates:
    """Time allreduces in a compiled loop, including the time of the loop."""
    # Zeros: thousands of sums of anything else would leave what a float can hold.
    x = tf.zeros([SHORT])
    in_loop = {
        f"{name} in the loop": looped(lambda y, op=op: sp.allreduce(y, op), x, LOOPS)
        for name, op in (("Sum", sp.Sum), ("Average", sp.Average))
    }
    return {"mpi4py, Sum": repeated(bare(SHORT), LOOPS), **in_loop}


def fusion_eager() -> Candidates:
    """Time many tensors next to one of their total length."""
    together, parts = tf.ones([MANY * EACH]), [tf.ones([EACH]) for _ in range(MANY)]
    matrices = [tf.reshape(part, [10, -1]) for part in parts]
    return {
        "one": repeated(lambda: sp.allreduce(together), 4),
        "fused": repeated(lambda: sp.fused_allreduce(parts), 4),
        "fused, of matrices": repeated(lambda: sp.fused_allreduce(matrices), 4),
        "one by one": repeated(lambda: [sp.allreduce(part) for part in parts], 1),
    }


def fusion_compiled() -> Candidates:
    """Time the same in compiled loops."""
    together, parts = tf.ones([MANY * EACH]), [tf.ones([EACH]) for _ in range(MANY)]
    return {
        "one": looped(sp.allreduce, together, MANY_LOOPS),
        "fused": looped(sp.fused_allreduce, parts, MANY_LOOPS),
    }


def checks() -> Candidates:
    """Time agreements and a timeline; the transfer is the same in all."""
    world = sp.current_world().communicator
    always, never = world.split(0), world.split(0)
    always.check_always = True
    never.agree = lambda signature, number=0: [number] * never.size  # type: ignore[method-assign]
    x, numbers = tf.ones([SHORT]), iter(range(10**6))

    def with_timeline() -> float:
        with tempfile.TemporaryDirectory() as folder:
            sp.start_timeline(Path(folder) / "timeline.json")
            world.barrier()
            microseconds = later()
            sp.stop_timeline()
        return microseconds

    def by(**how: Any) -> Candidate:
        return repeated(lambda: sp.allreduce(x, sp.Sum, **how), 100)

    later = by()
    return {
        "never": by(communicator=never),
        "later": later,
        "first": repeated(lambda: sp.allreduce(x, sp.Sum, name=str(next(numbers))), 20),
        "SCIML_PAR_CHECK=always": by(communicator=always),
        "later, with a timeline": with_timeline,
    }


CASES: dict[str, Callable[[], Candidates]] = {
    "64 MiB, eager": lambda: eager(LONG, 2),
    "1 MiB, eager": lambda: eager(MEDIUM, 20),
    "321 floats, eager": lambda: eager(SHORT, 200),
    "321 floats, compiled loop": compiled_loop,
    "200 × 1,000 floats, eager": fusion_eager,
    "200 × 1,000 floats, compiled loop": fusion_compiled,
    "321 floats, checks": checks,
}


if __name__ == "__main__":
    main()
