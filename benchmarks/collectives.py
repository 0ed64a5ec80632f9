"""How fast collectives are, beside bare mpi4py on buffers of the same length, in one run.

Two ranks of one host. The candidates of a comparison are timed in turns: a block of each, every
block after a barrier, over and over. A figure is the median of the blocks on the slower rank, and
what counts are the ratios. The bare allreduce writes into the same buffer each time; those of
sciml_par give a new tensor each time, and its price is in the figures.

    python benchmarks/collectives.py [--quick]

starts its own mpirun, prints a table of targets and figures and writes
benchmarks/results/collectives.json (with --quick, fewer blocks and no file).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RANKS = 2
ROUNDS, QUICK_ROUNDS = 41, 9
RESULTS = Path(__file__).parent / "results" / "collectives.json"

SHORT, MEDIUM, LONG = 321, 1 << 18, 1 << 24
"""Numbers of float32: a small network's gradient, 1 MiB, 64 MiB."""

LOOPS = 2000
MANY, EACH = 200, 1000
MANY_LOOPS = 200
"""So many that what the call of a program with 200 operands costs does not count, only the loop."""

Candidates = dict[str, tuple[Callable[[], float | None], int]]
"""What is timed: a function, and how many collectives one call of it does. One that returns a
number has taken the seconds itself."""


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
    parser.add_argument("--quick", action="store_true", help="fewer blocks, no file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(QUICK_ROUNDS if options.quick else ROUNDS)
        return
    command = ["mpirun", "-np", str(RANKS), sys.executable, __file__, "--worker"]
    command += ["--quick"] * options.quick
    finished = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=600)
    if finished.returncode:
        sys.exit(finished.returncode)
    times = json.loads(finished.stdout.strip().splitlines()[-1])
    show(times)
    if not options.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(times, indent=2) + "\n")
        print(f"written to {RESULTS}")


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
    """The targets and what was reached."""
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


def work(rounds: int) -> None:
    """Measure on all ranks; rank 0 prints the slower rank's times."""
    import sciml_par
    from sciml_par.parallel import current_world

    sciml_par.init()
    world = current_world().communicator
    mine = {case: in_turns(make(), rounds) for case, make in CASES.items()}
    everyone = world.allgather_object(mine)
    slowest = {
        case: {name: max(each[case][name] for each in everyone) for name in candidates}
        for case, candidates in mine.items()
    }
    if world.rank == 0:
        print(json.dumps(slowest))


def in_turns(candidates: Candidates, rounds: int) -> dict[str, float]:
    """The median microseconds per collective of each candidate."""
    from mpi4py import MPI

    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(rounds + 2):
        for name, (candidate, collectives) in candidates.items():
            MPI.COMM_WORLD.Barrier()
            began = time.perf_counter()
            seconds = candidate()
            took = time.perf_counter() - began if seconds is None else seconds
            if round_number > 1:  # the first compiles and agrees, the second finds its memory
                times[name].append(1e6 * took / collectives)
    return {name: statistics.median(values) for name, values in times.items()}


def repeated(function: Callable[[], Any], times: int) -> tuple[Callable[[], None], int]:
    """`function` called so often, and how often that is."""

    def run() -> None:
        for _ in range(times):
            function()

    return run, times


def bare(count: int) -> Callable[[], None]:
    """MPI's allreduce between two arrays, by mpi4py alone."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    source, target = np.ones(count, np.float32), np.empty(count, np.float32)
    return lambda: comm.Allreduce(source, target)


def eager(count: int, times: int) -> Candidates:
    """One eager allreduce after the other."""
    import tensorflow as tf

    import sciml_par.parallel as sp

    x = tf.ones([count])
    return {
        "mpi4py, Sum": repeated(bare(count), times),
        "Sum": repeated(lambda: sp.allreduce(x, sp.Sum), times),
        "Average": repeated(lambda: sp.allreduce(x), times),
    }


def compiled_loop() -> Candidates:
    """Allreduces in a while loop that XLA has compiled; the loop's own time is theirs, too."""
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
        return repeated(lambda: run(x).numpy(), 1)[0]

    return {
        "mpi4py, Sum": repeated(bare(SHORT), LOOPS),
        "Sum in the loop": (loop(sp.Sum), LOOPS),
        "Average in the loop": (loop(sp.Average), LOOPS),
    }


def fusion_eager() -> Candidates:
    """Many tensors beside one as long as all of them."""
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
    """The same in loops that XLA has compiled."""
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
        "one": (repeated(lambda: one(together).numpy(), 1)[0], MANY_LOOPS),
        "fused": (repeated(lambda: fused(parts).numpy(), 1)[0], MANY_LOOPS),
    }


def checks() -> Candidates:
    """What agreements cost, and a timeline: the transfer is the same in all."""
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
            began = time.perf_counter()
            later()
            seconds = time.perf_counter() - began
            sp.stop_timeline()
        return seconds

    later, _ = repeated(lambda: sp.allreduce(x, sp.Sum), 100)
    return {
        "never": repeated(lambda: sp.allreduce(x, sp.Sum, communicator=never), 100),
        "later": (later, 100),
        "first": repeated(lambda: sp.allreduce(x, sp.Sum, name=str(next(numbers))), 20),
        "SCIML_PAR_CHECK=always": repeated(
            lambda: sp.allreduce(x, sp.Sum, communicator=always), 100
        ),
        "later, with a timeline": (with_timeline, 100),
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
