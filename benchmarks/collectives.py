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

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _by_size
from _measuring import RESULTS, Candidate, in_turns, repeated, run_ranks, slowest, write_json

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


@dataclass(frozen=True)
class Target:
    """What a figure must reach: at least `least`, or at most `most`."""

    text: str
    figure: float
    least: float | None = None
    most: float | None = None

    @property
    def bound(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    @property
    def met(self) -> bool:
        if self.least is not None:
            return self.figure >= self.least
        return self.most is not None and self.figure <= self.most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer blocks and sizes, no file")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="measure by size on this device")
    parser.add_argument("--ranks", type=int, help="with --device: how many; one per GPU by default")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.device, quick=options.quick)
        return
    arguments = ["--quick"] * options.quick
    if options.device is None:
        found = run_ranks(RANKS, __file__, "--worker", *arguments)
        show(found)
    else:
        arguments += ["--device", options.device]
        default = _by_size.default_ranks(options.device)
        found = run_ranks(options.ranks or default, __file__, "--worker", *arguments)
        print(_by_size.tables(found))
    if not options.quick:
        suffix = f"_{options.device}" if options.device else ""
        write_json(RESULTS / f"collectives{suffix}.json", found)


def show(times: dict[str, dict[str, float]]) -> None:
    """Print all times, and the targets."""
    for case, candidates in times.items():
        print(f"\n{case:58}{'µs':>11}{'÷ first':>9}")
        first = next(iter(candidates.values()))
        for name, microseconds in candidates.items():
            print(f"  {name:56}{microseconds:11.1f}{microseconds / first:9.2f}")
    print(f"\n{'target':58}{'':>9}{'figure':>9}  met")
    for target in targets(times):
        met = "yes" if target.met else "NO"
        print(f"  {target.text:56}{target.bound:>9}{target.figure:9.2f}  {met}")


def targets(times: dict[str, dict[str, float]]) -> list[Target]:
    """Return the targets and the measured values."""
    long, medium, short = times["64 MiB, eager"], times["1 MiB, eager"], times["321 floats, eager"]
    loop, eager = times["321 floats, compiled loop"], times["200 × 1,000 floats, eager"]
    fused, checked = times["200 × 1,000 floats, compiled loop"], times["321 floats, checks"]
    added = loop["Sum in the loop"] - loop["mpi4py, Sum"]
    return [
        Target("64 MiB, eager Sum: bandwidth ÷ bare", ratio(long, "Sum"), least=0.9),
        Target("64 MiB, eager Average: bandwidth ÷ bare", ratio(long, "Average"), least=0.9),
        Target("1 MiB, eager Sum: bandwidth ÷ bare", ratio(medium, "Sum"), least=0.8),
        Target("1 MiB, eager Average: bandwidth ÷ bare", ratio(medium, "Average"), least=0.8),
        Target("321 floats, eager Sum: µs", short["Sum"], most=60),
        Target("321 floats, eager Average: µs", short["Average"], most=60),
        Target("321 floats, compiled loop: µs more than bare", added, most=8),
        Target("fusion in a compiled loop ÷ one tensor", fused["fused"] / fused["one"], most=1.3),
        Target("fusion, eager ÷ one tensor", eager["fused"] / eager["one"], most=1.3),
        Target("agreed on before ÷ no check at all", checked["later"] / checked["never"], most=1.1),
    ]


def ratio(times: dict[str, float], name: str) -> float:
    return times["mpi4py, Sum"] / times[name]


def work(device: str | None, *, quick: bool) -> None:
    """Measure on all ranks; rank 0 prints what was found."""
    import sciml_par
    from sciml_par.parallel import rank

    sciml_par.init()
    if device is None:
        rounds = QUICK_ROUNDS if quick else ROUNDS
        found: Any = {case: slowest(in_turns(make(), rounds)) for case, make in CASES.items()}
    else:
        found = _by_size.measure(device, quick=quick)
    if rank() == 0:
        print(json.dumps(found))


def bare(count: int) -> Callable[[], None]:
    """Return MPI's allreduce between two arrays, by mpi4py alone."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    source, target = np.ones(count, np.float32), np.empty(count, np.float32)
    return lambda: comm.Allreduce(source, target)


def eager(count: int, times: int) -> Candidates:
    """Time eager allreduces one after another."""
    import tensorflow as tf

    import sciml_par.parallel as sp

    x = tf.ones([count])
    return {
        "mpi4py, Sum": repeated(bare(count), times),
        "Sum": repeated(lambda: sp.allreduce(x, sp.Sum), times),
        "Average": repeated(lambda: sp.allreduce(x), times),
    }


def compiled_loop() -> Candidates:
    """Time allreduces in a while loop compiled by XLA, including the time of the loop."""
    import tensorflow as tf

    import sciml_par.parallel as sp

    def loop(op: sp.ReduceOp) -> Callable[[], Any]:
        @tf.function(jit_compile=True)
        def run(x: Any) -> Any:
            return tf.while_loop(
                lambda i, _: i < LOOPS, lambda i, y: (i + 1, sp.allreduce(y, op)), (0, x)
            )[1]

        # Zeros: thousands of sums of anything else would leave what a float can hold.
        x = tf.zeros([SHORT])
        return lambda: run(x).numpy()

    return {
        "mpi4py, Sum": repeated(bare(SHORT), LOOPS),
        "Sum in the loop": repeated(loop(sp.Sum), 1, each=LOOPS),
        "Average in the loop": repeated(loop(sp.Average), 1, each=LOOPS),
    }


def fusion_eager() -> Candidates:
    """Time many tensors next to one of their total length."""
    import tensorflow as tf

    import sciml_par.parallel as sp

    together, parts = tf.ones([MANY * EACH]), [tf.ones([EACH]) for _ in range(MANY)]
    matrices = [tf.reshape(part, [10, -1]) for part in parts]
    return {
        "one": repeated(lambda: sp.allreduce(together), 4),
        "fused": repeated(lambda: sp.fused_allreduce(parts), 4),
        "fused, of matrices": repeated(lambda: sp.fused_allreduce(matrices), 4),
        "one by one": repeated(lambda: [sp.allreduce(part) for part in parts], 1),
    }


def fusion_compiled() -> Candidates:
    """Time the same in loops compiled by XLA."""
    import tensorflow as tf

    import sciml_par.parallel as sp

    @tf.function(jit_compile=True)
    def one(x: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < MANY_LOOPS, lambda i, y: (i + 1, sp.allreduce(y)), (0, x)
        )[1]

    @tf.function(jit_compile=True)
    def fused(xs: list[Any]) -> Any:
        last = tf.while_loop(
            lambda i, _: i < MANY_LOOPS, lambda i, ys: (i + 1, sp.fused_allreduce(ys)), (0, xs)
        )[1]
        return tf.concat(last, axis=0)

    together, parts = tf.ones([MANY * EACH]), [tf.ones([EACH]) for _ in range(MANY)]
    return {
        "one": repeated(lambda: one(together).numpy(), 1, each=MANY_LOOPS),
        "fused": repeated(lambda: fused(parts).numpy(), 1, each=MANY_LOOPS),
    }


def checks() -> Candidates:
    """Time agreements and a timeline; the transfer is the same in all."""
    import tensorflow as tf

    import sciml_par.parallel as sp

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

    later = repeated(lambda: sp.allreduce(x, sp.Sum), 100)
    return {
        "never": repeated(lambda: sp.allreduce(x, sp.Sum, communicator=never), 100),
        "later": later,
        "first": repeated(lambda: sp.allreduce(x, sp.Sum, name=str(next(numbers))), 20),
        "SCIML_PAR_CHECK=always": repeated(
            lambda: sp.allreduce(x, sp.Sum, communicator=always), 100
        ),
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
