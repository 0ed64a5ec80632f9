"""The ranks of this job. `world` is the one piece of global state in the package."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from sciml_par.errors import NotInitializedError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Mailbox


@dataclass(frozen=True)
class GpuTransport:
    """How GPU tensors travel: by NCCL, or `obstacle` says why not, which may be `surprising`."""

    obstacle: str
    surprising: bool


@dataclass
class World:
    """All ranks of the job.

    Attributes
    ----------
    communicator : the group of all ranks.
    host : the group of the ranks on this host, in shared memory.
    alone : the group of this rank only.
    hosts : the host of each rank, by the number of the first rank on it, [P].
    threads : the number of cores for this rank.
    gpu : this rank's GPU as in CUDA_VISIBLE_DEVICES, or None.
    transport : the way of tensors between GPUs.
    failures : `FailureReporter` of the errors that end this rank.
    mailbox : short messages between ranks.
    job_end : `JobEnd`, which ends all ranks.
    watchdog : `Watchdog` of collectives that make no progress; None if it has no thread.
    sentinel : `Sentinel`, the process that reports this rank if it is lost, or None.
    process_sets : the groups of the Horovod facade, by number.
    timeline : `Timeline`, this rank's part in the recording of one, or None.
    kept : values that parts of the package keep between calls, by name.
    process : the rank's process; a child made by a fork has another one.
    """

    communicator: Communicator
    host: Communicator
    alone: Communicator
    hosts: list[int]
    threads: int
    gpu: str | None
    transport: GpuTransport
    failures: Any
    mailbox: Mailbox
    job_end: Any
    watchdog: Any = None
    sentinel: Any = None
    timeline: Any = None
    process_sets: dict[int, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    process: int = field(default_factory=os.getpid)


world: World | None = None


def enter(new: World) -> World:
    """Make `new` the ranks of this job."""
    global world  # noqa: PLW0603
    world = new
    return new


def leave() -> World | None:
    """Leave the ranks of this job and return them, if any."""
    global world  # noqa: PLW0603
    left, world = world, None
    return left


def present_world() -> World | None:
    """Return the ranks of this job, if it has any."""
    return world


def current_world() -> World:
    """Return the ranks of this job, or `NotInitializedError`."""
    if world is None:
        raise NotInitializedError(
            "sciml_par has no ranks yet: call sciml_par.init() first, before any tensor is made."
        )
    return world


def is_initialized() -> bool:
    """Return whether `init` has run and `shutdown` has not (local)."""
    return world is not None


def rank() -> int:
    """Return this process's number, 0 ≤ rank < size (local)."""
    return current_world().communicator.rank


def size() -> int:
    """Return the number of ranks (local)."""
    return current_world().communicator.size


def local_rank() -> int:
    """Return this process's number among the ranks on its host (local)."""
    return current_world().host.rank


def local_size() -> int:
    """Return the number of ranks on this host (local)."""
    return current_world().host.size


def cross_rank() -> int:
    """Return this host's number among the hosts with a rank of this `local_rank` (local)."""
    return _hosts_with(local_rank()).index(current_world().host.world_ranks[0])


def cross_size() -> int:
    """Return the number of hosts with a rank of this `local_rank` (local)."""
    return len(_hosts_with(local_rank()))


def is_homogeneous() -> bool:
    """Return whether every host has the same number of ranks (local)."""
    hosts = current_world().hosts
    return len({hosts.count(host) for host in hosts}) == 1


def barrier() -> None:
    """Wait until every rank has reached this call (collective)."""
    current_world().communicator.barrier()


def _hosts_with(local: int) -> list[int]:
    """Return the hosts of more than `local` ranks, by their first rank, in ascending order."""
    hosts = current_world().hosts
    return [host for host in sorted(set(hosts)) if hosts.count(host) > local]
