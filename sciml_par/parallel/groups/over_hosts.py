"""Which ranks of a group share memory, and a short allreduce on several hosts by way of it.

On several hosts the ranks of each add up in its memory, the first of each adds what the hosts have
by MPI, and gives the result to the others of its host. So one rank of a host waits for the network,
in place of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sciml_par.errors import TransferError
from sciml_par.parallel.native.host_group import DifferentRequestError, HostGroup
from sciml_par.parallel.native.job import NativeJob, host_group
from sciml_par.parallel.requests.reduce_op import Average, Sum
from sciml_par.parallel.requests.request import Allreduce, Broadcast, Request
from sciml_par.parallel.transports.host_levels import have_levels
from sciml_par.parallel.transports.mpi import MPITransport
from sciml_par.parallel.transports.mpi_buffers import division
from sciml_par.parallel.transports.transport import Shortcut, Transfer

if TYPE_CHECKING:
    from mpi4py import MPI

_LEAST_OF_A_HOST = 3
"""From how many ranks of a host on those of several share memory. Between two hosts by TCP, all on
two cores, an allreduce takes 0.86, 0.76, 0.42 and 0.58 of the time by MPI alone with three ranks
each, for 32 B, 1.3 KB, 64 KB and 800 KB; with two each, 1.4, 1.4, 1.1 and 1.0. Broadcasts and
allgathers stay with MPI: by the same two levels, of MPI's own calls, a broadcast of 32 B to 64 KB
takes 1.03 to 1.19 of the time with three ranks each, and an allgather 0.80 to 1.02, with two each
1.05 to 1.44."""


def share_within_hosts(hosts: Sequence[int]) -> bool:
    """Return whether the ranks of several hosts share memory with those of their own.

    Parameters
    ----------
    hosts : a number for the host of each rank, [P].
    """
    return have_levels(hosts) and len(hosts) >= _LEAST_OF_A_HOST * len(set(hosts))


def own_host_group(
    job: NativeJob, control: MPI.Comm, world_ranks: Sequence[int]
) -> HostGroup | None:
    """Return the ranks of a group that are on this rank's host, by shared memory (collective).

    None, on all ranks alike, where one of them has no machine code, or cannot share memory with the
    others of its host; and on several hosts without `share_within_hosts`.
    """
    hosts = [job.hosts[rank] for rank in world_ranks]
    if not share_within_hosts(hosts):
        return host_group(job, control, world_ranks)
    if job.obstacle:
        return None
    mine = hosts[control.Get_rank()]
    part = control.Split(mine, control.Get_rank())
    try:
        members = [rank for rank in world_ranks if job.hosts[rank] == mine]
        group = host_group(job, part, members)
    finally:
        part.Free()
    return group if all(control.allgather(group is not None)) else None


def obstacle_to_sharing(
    job: NativeJob, own_host: HostGroup | None, world_ranks: Sequence[int]
) -> str:
    """Why a group has no `own_host_group`; empty if it has."""
    if own_host is not None or job.obstacle:
        return job.obstacle
    hosts = [job.hosts[rank] for rank in world_ranks]
    if len(set(hosts)) > 1 and not share_within_hosts(hosts):
        return (
            f"the ranks are on several hosts, and not on each as many, {_LEAST_OF_A_HOST} or more"
        )
    return "the ranks cannot share memory (each in a container of its own?)"


def shortcut(own_host: HostGroup | None, transport: MPITransport) -> Shortcut | None:
    """What carries a group's short requests faster than the transport by itself."""
    if own_host is None or transport.between is None:
        return own_host
    return OverHosts(own_host, transport.between)


class OverHosts:
    """A `Shortcut` for the ranks of several hosts."""

    def __init__(self, host: HostGroup, between: MPITransport) -> None:
        self._host = host
        self._between = between
        self._size = host.size * between.size

    def carries(self, request: Request) -> bool:
        """Return whether a request takes this way.

        16-bit types do not: the hosts' results would be rounded before they are combined.
        """
        rounded = request.element.wide is not request.element
        return isinstance(request, Allreduce) and not rounded and self._host.carries(request)

    def transfer(self, request: Request) -> Transfer:
        """What carries out a request that `carries` is true of."""
        assert isinstance(request, Allreduce)
        asked, request = request, request.in_reals
        op, element = request.op, request.element
        partial = Allreduce(request.dtype, request.shape, Sum if op is Average else op)
        within = self._host.transfer(partial)
        back = self._host.transfer(Broadcast(request.dtype, request.shape, 0))
        if self._host.rank != 0:

            def follow(send: int, receive: int) -> None:
                within(send, receive)
                back(receive, receive)

            return _explaining(follow, asked)

        across = self._between.prepare(partial)
        divide = division(op, self._size, element)
        of_host, of_all = np.empty((2, request.count), element.numpy)
        places = of_host.ctypes.data, of_all.ctypes.data

        def lead(send: int, receive: int) -> None:
            within(send, places[0])
            across(*places)
            if divide is not None:
                divide(of_all)
            back(places[1], receive)

        return _explaining(lead, asked)


def _explaining(transfer: Transfer, request: Request) -> Transfer:
    """`transfer`, where the ranks of a host that differ cannot ask those of the others."""

    def explaining(send: int, receive: int) -> None:
        try:
            transfer(send, receive)
        except DifferentRequestError:
            raise TransferError(
                f"This rank asked for {request.signature}, and another one of its host for "
                f"something else, all of which had been agreed on before. SCIML_PAR_CHECK=always "
                f"finds the place."
            ) from None

    return explaining
