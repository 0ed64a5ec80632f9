"""A short allreduce on several hosts: by shared memory within each, and by MPI between the hosts.

The ranks of a host add up, the first rank of each adds what the hosts have, and gives the result to
the others of its host. So one rank of a host waits for the network, in place of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sciml_par.errors import TransferError
from sciml_par.parallel.native.host_group import DifferentRequestError, HostGroup
from sciml_par.parallel.requests.reduce_op import Average, Sum
from sciml_par.parallel.requests.request import Allreduce, Broadcast, Request
from sciml_par.parallel.transports.mpi_buffers import division
from sciml_par.parallel.transports.transport import Transfer

if TYPE_CHECKING:
    from sciml_par.parallel.transports.mpi import MPITransport


class OverHosts:
    """A `Shortcut` for the ranks of several hosts.

    Parameters
    ----------
    host : the ranks of the group on this rank's host, as many as on every other.
    between : this rank and those with the same number on the other hosts. Only the first ranks of
        the hosts use it.
    """

    def __init__(self, host: HostGroup, between: MPITransport) -> None:
        self._host = host
        self.between = between
        self._size = host.size * between.size

    def carries(self, request: Request) -> bool:
        """Whether a request takes this way (local)."""
        return isinstance(request, Allreduce) and self._host.carries(request)

    def transfer(self, request: Request) -> Transfer:
        """What carries out a request that `carries` is true of (local)."""
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

        across = self.between.prepare(partial)
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
