"""The two levels of a group on several hosts: the ranks of a host, and those at one place of each.

With hosts A and B of two ranks each, the levels of rank 2 are (2, 3) within its host and (0, 2)
across the hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class HostLevels:
    """Two communicators of a rank.

    Attributes
    ----------
    within : the ranks of the group on this rank's host, in the group's order.
    across : the ranks with the same number in `within`, one of each host.
    """

    within: MPI.Comm
    across: MPI.Comm

    def free(self) -> None:
        """Give both up (collective)."""
        self.within.Free()
        self.across.Free()


def have_levels(hosts: Sequence[int]) -> bool:
    """Return whether there are several hosts with the same number of ranks each, two or more.

    Parameters
    ----------
    hosts : a number for the host of each rank, [P].
    """
    ranks_of_a_host = set(Counter(hosts).values())
    return len(set(hosts)) > 1 and len(ranks_of_a_host) == 1 and ranks_of_a_host != {1}


def levels_of(comm: MPI.Comm, hosts: Sequence[int]) -> HostLevels | None:
    """The levels of a group; None where `have_levels` is not true (collective over the group)."""
    if not have_levels(hosts):
        return None
    rank = comm.Get_rank()
    within = comm.Split(hosts[rank], rank)
    return HostLevels(within, comm.Split(within.Get_rank(), rank))
