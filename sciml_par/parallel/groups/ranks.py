"""Who this process is among the ranks (local)."""

from __future__ import annotations

from sciml_par.parallel.groups.world import current_world


def rank() -> int:
    """This process's number, 0 ≤ rank < size (local)."""
    return current_world().communicator.rank


def size() -> int:
    """Return how many ranks there are (local)."""
    return current_world().communicator.size


def local_rank() -> int:
    """This process's number among the ranks on its host (local)."""
    return current_world().host.rank


def local_size() -> int:
    """Return how many ranks run on this host (local)."""
    return current_world().host.size


def cross_rank() -> int:
    """This host's number among the hosts that have a rank with this `local_rank` (local)."""
    return _hosts_with(local_rank()).index(current_world().host.world_ranks[0])


def cross_size() -> int:
    """On how many hosts there is a rank with this `local_rank` (local)."""
    return len(_hosts_with(local_rank()))


def is_homogeneous() -> bool:
    """Return whether as many ranks run on every host (local)."""
    hosts = current_world().hosts
    return len({hosts.count(host) for host in hosts}) == 1


def barrier() -> None:
    """Wait until every rank has come here (collective)."""
    current_world().communicator.barrier()


def _hosts_with(local: int) -> list[int]:
    """Return the hosts of more than `local` ranks, by their first rank, in ascending order."""
    hosts = current_world().hosts
    return [host for host in sorted(set(hosts)) if hosts.count(host) > local]
