"""The joint decision of a job's ranks on machine code and shared memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sciml_par.errors import InputError
from sciml_par.parallel.native.code import native_code
from sciml_par.parallel.native.host_group import HostGroup, bytes_of_memory
from sciml_par.parallel.native.machine_code import obstacle
from sciml_par.parallel.native.shared_memory import shared_between

if TYPE_CHECKING:
    from mpi4py import MPI

VARIABLE = "SCIML_PAR_NATIVE"


@dataclass(frozen=True)
class NativeJob:
    """The decision, the same on all ranks.

    Attributes
    ----------
    obstacle : why the ranks have no machine code; empty if they have it.
    hosts : a number for the host of each rank, [P].
    crowded : of each rank, whether its host has more ranks than cores, [P].
    """

    obstacle: str
    hosts: tuple[int, ...]
    crowded: tuple[bool, ...]


def settle_native(mpi: MPI.Comm, control: MPI.Comm, environment: Mapping[str, str]) -> NativeJob:
    """Decide together (collective)."""
    if control.Get_size() == 1:
        return NativeJob("there is one rank only", (0,), (False,))
    own = frozenset(os.sched_getaffinity(0))
    everyone = control.allgather((_own_obstacle(environment), _host(mpi), own))
    obstacles = [f"rank {r}: {why}" for r, (why, _, _) in enumerate(everyone) if why]
    alike = {why for why, _, _ in everyone}
    why = (alike.pop() if len(alike) == 1 else obstacles[0]) if obstacles else ""
    if any(why.startswith(VARIABLE) and "expected" in why for why, _, _ in everyone):
        raise InputError(why)
    hosts = tuple(host for _, host, _ in everyone)
    cores = {h: frozenset[int]().union(*(c for _, x, c in everyone if x == h)) for h in hosts}
    crowded = tuple(hosts.count(h) > len(cores[h]) for h in hosts)
    return NativeJob(why, hosts, crowded)


def host_group(job: NativeJob, control: MPI.Comm, world_ranks: Sequence[int]) -> HostGroup | None:
    """Return the group's shared memory; None if it is not on one host (collective)."""
    size = len(world_ranks)
    if size == 1 or job.obstacle or len({job.hosts[rank] for rank in world_ranks}) > 1:
        return None
    memory = shared_between(control, bytes_of_memory(size))
    if memory is None:
        return None
    crowded = any(job.crowded[rank] for rank in world_ranks)
    return HostGroup(native_code(), control.Get_rank(), size, memory, crowded=crowded)


def _own_obstacle(environment: Mapping[str, str]) -> str:
    asked = environment.get(VARIABLE, "")
    if asked not in ("", "0", "1"):
        return f"{VARIABLE}: expected 0 or 1; got {asked!r}"
    if asked == "0":
        return f"{VARIABLE}=0 switches it off"
    why = obstacle()
    if why:
        return why
    try:
        native_code()
    except Exception as error:  # LLVM without executable memory, for one
        return f"LLVM could not create it ({type(error).__name__}: {error})"
    return ""


def _host(mpi: MPI.Comm) -> int:
    """Return the lowest rank on this rank's host (collective)."""
    from mpi4py import MPI

    part = mpi.Split_type(MPI.COMM_TYPE_SHARED, mpi.Get_rank())
    try:
        lowest: int = part.bcast(mpi.Get_rank())
        return lowest
    finally:
        part.Free()
