"""An allreduce on several hosts: by hosts first, by all ranks at once, and by MPI's own call.

    mpirun -np 8 -hosts a:4,b:4 python benchmarks/over_hosts.py

Takes the same number of ranks, three or more, on each of the hosts that the job has. The three ways
take turns in one run; rank 0 prints the medians, and their ratios. What is short goes through the
shared memory of each host where machine code is there, else all by MPI.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from _measuring import in_turns, repeated

COUNTS = (8, 322, 2_000, 16_000, 64_000, 200_000, 400_000, 1 << 20, 1 << 22, 1 << 24)
ROUNDS = 9
BYTES_OF_A_ROUND = 1 << 22
MOST_CALLS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    import sciml_par
    from sciml_par.parallel import current_world

    sciml_par.init()
    world = current_world().communicator
    if world.mpi_transport.levels is None:
        hosts = len(set(world.native.hosts))
        sys.exit(
            f"error: expected several hosts with the same number of ranks each, two or more; got "
            f"{world.size} ranks on {hosts} host(s)"
        )
    if world.rank == 0:
        print(f"shared memory: {world.obstacle_to_sharing or 'within each host'}")
        titles = f"{'by hosts, µs':>16}{'all at once':>14}{'MPI':>12}{'÷ all':>8}{'÷ MPI':>8}"
        print(f"{'bytes':>10}{titles}")
    for count in COUNTS:
        calls = max(1, min(MOST_CALLS, BYTES_OF_A_ROUND // (4 * count)))
        candidates = {name: repeated(way, calls) for name, way in ways_of(count).items()}
        by_hosts, at_once, bare = in_turns(candidates, rounds).values()
        if world.rank == 0:
            ratios = f"{by_hosts / at_once:8.2f}{by_hosts / bare:8.2f}"
            print(f"{4 * count:10}{by_hosts:16.1f}{at_once:14.1f}{bare:12.1f}{ratios}", flush=True)


def ways_of(count: int) -> dict[str, Callable[[], object]]:
    """The three ways to average so many floats."""
    from mpi4py import MPI

    from sciml_par.parallel import Average, current_world
    from sciml_par.parallel.requests.request import Allreduce
    from sciml_par.parallel.transports.mpi import MPITransport

    world = current_world().communicator
    x = np.random.default_rng(world.rank).standard_normal(count).astype(np.float32)
    y = np.empty_like(x)
    request = Allreduce("float32", (count,), Average)
    by_hosts = world.mpi_transport.prepare(request)
    at_once = MPITransport(world.mpi).prepare(request)

    def bare() -> None:
        world.mpi.Allreduce(x, y, MPI.SUM)
        np.divide(y, world.size, y)

    addresses = x.ctypes.data, y.ctypes.data
    return {
        "by hosts": lambda: by_hosts(*addresses),
        "at once": lambda: at_once(*addresses),
        "MPI": bare,
    }


if __name__ == "__main__":
    main()
