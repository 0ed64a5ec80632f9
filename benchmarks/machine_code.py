"""Measure the cost of a collective in a training step, with and without machine code.

All are timed in turns in one run, so that a busy machine affects all alike: the data-mode step
of a small network (Poisson, 16×2, 51 points a rank, float32) with its allreduce by machine code,
with the same by Python and MPI, and without one; an allreduce of 322 floats in a compiled loop by
both and the empty loop; and 200 tensors of 1,000 floats fused, next to one tensor as long.

    python benchmarks/machine_code.py [--quick]

starts mpirun with two ranks, with two ranks next to two busy processes, and with four ranks. It
prints low quantiles and medians of the rounds, and writes benchmarks/results/machine_code.json.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

from _runner import RESULTS, Candidate, all_in_turns, on_ranks, parse, report, write_json
from collectives import looped
from training_step import engine_loop

import sciml_par.parallel as sp
from sciml_par._tensorflow import tf

COUNT, LOOPS, STEPS = 322, 500, 500
MANY, EACH, MANY_LOOPS = 200, 1000, 100
ROUNDS, QUICK_ROUNDS = 101, 15
"""Short rounds, and many: where the cores are shared, some of them are not disturbed."""

QUANTILES = {"min": 0.0, "q10": 0.1, "q25": 0.25, "median": 0.5}
BUSY = "while True: pass"


def main() -> None:
    options = parse(__doc__, quick=(False, "fewer rounds, two ranks, no file"))
    if options.quick:
        return show("2 ranks", on_ranks(2, work, QUICK_ROUNDS))
    found = {"2 ranks": on_ranks(2, work, ROUNDS)}
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        found["2 ranks, two busy processes"] = on_ranks(2, work, ROUNDS)
    finally:
        for other in others:
            other.kill()
            other.wait()
    found["4 ranks"] = on_ranks(4, work, ROUNDS)
    for title, times in found.items():
        show(title, times)
    write_json(RESULTS / "machine_code.json", found)


def show(title: str, found: dict[str, dict[str, float]]) -> None:
    print()
    columns = {f"{title}, µs": "name:<44", **{name: f"{name}:10.1f" for name in QUANTILES}}
    rows = [{"name": f"  {name}", **times} for name, times in found.items()]
    for text, name in (("machine code", "loop"), ("Python and MPI", "loop, MPI")):
        added = {q: found[name][q] - found["empty loop"][q] for q in QUANTILES}
        rows.append({"name": f"  allreduce above the empty loop, {text}", **added})
    report(columns, rows)
    ratios = {
        "step ÷ without allreduce, machine code": ("step", "step without allreduce"),
        "step ÷ without allreduce, Python and MPI": ("step, MPI", "step without allreduce"),
        "step, machine code ÷ Python and MPI": ("step", "step, MPI"),
        "fused ÷ one tensor, machine code": ("fused", "one tensor"),
        "fused ÷ one tensor, Python and MPI": ("fused, MPI", "one tensor, MPI"),
    }
    columns = {"ratio": "name:<44", **{name: f"{name}:10.2f" for name in QUANTILES}}
    shares = {
        text: {q: found[above][q] / found[below][q] for q in QUANTILES}
        for text, (above, below) in ratios.items()
    }
    report(columns, [{"name": f"  {text}", **share} for text, share in shares.items()])


def work(rounds: int) -> dict[str, dict[str, float]]:
    """Measure on all ranks, and return the quantiles of this one (collective)."""
    import numpy as np

    sp.init()
    tf.get_logger().setLevel("ERROR")  # one loop after the other is traced, as it must be
    everyone = sp.current_world().communicator
    if everyone.shared is None:
        sys.exit(f"error: {everyone.obstacle_to_sharing}")
    times = all_in_turns(steps() | loops() | fused(), rounds)
    return {
        name: {q: float(np.quantile(each, at)) for q, at in QUANTILES.items()}
        for name, each in times.items()
    }


def by_mpi() -> Any:
    """Return a group of all ranks that has no machine code."""
    world = sp.current_world().communicator
    native, world.native = world.native, replace(world.native, obstacle="left out to compare")
    try:
        return world.split(0)
    finally:
        world.native = native


def steps() -> dict[str, Candidate]:
    world = sp.current_world()
    everyone, size = world.communicator, {"points": 51, "steps": STEPS}
    return {
        "step": engine_loop(everyone, **size),
        "step, MPI": engine_loop(by_mpi(), **size),
        "step without allreduce": engine_loop(world.alone, shard_of=everyone, **size),
    }


def loops() -> dict[str, Candidate]:
    """Time an allreduce of a small gradient in a compiled loop."""
    group, x = by_mpi(), [tf.ones(COUNT)]
    return {
        "empty loop": looped(lambda ys: [0.5 * ys[0]], x, LOOPS),
        "loop": looped(lambda ys: [0.5 * sp.allreduce(ys[0], sp.Sum)], x, LOOPS),
        "loop, MPI": looped(
            lambda ys: [0.5 * sp.allreduce(ys[0], sp.Sum, communicator=group)], x, LOOPS
        ),
    }


def fused() -> dict[str, Candidate]:
    group, many, one = by_mpi(), [tf.ones(EACH)] * MANY, [tf.ones(MANY * EACH)]
    return {
        "fused": looped(sp.fused_allreduce, many, MANY_LOOPS),
        "one tensor": looped(lambda ys: [sp.allreduce(ys[0])], one, MANY_LOOPS),
        "fused, MPI": looped(
            lambda ys: sp.fused_allreduce(ys, communicator=group), many, MANY_LOOPS
        ),
        "one tensor, MPI": looped(
            lambda ys: [sp.allreduce(ys[0], communicator=group)], one, MANY_LOOPS
        ),
    }


if __name__ == "__main__":
    main()
