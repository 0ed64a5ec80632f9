"""A long allreduce by MPI: each rank reduces an equal share, and all gather the shares.

That is the algorithm of Rabenseifner (Thakur, Rabenseifner and Gropp 2005, section 4.5), by MPI's
own two collectives. MPICH 5 has it within MPI_Allreduce as well, between the ranks of a host in
twice the time: 96 MB on 2, 3 and 4 ranks that share two cores in 36, 97 and 87 ms, and so in 16, 46
and 48. Its MPI_Reduce_scatter, which takes uneven shares, is six times as slow on four ranks.

On several hosts with R ranks each, the R of a host reduce and gather shares, and in between those
that have the same share on the other hosts reduce it by MPI_Allreduce. So each host sends as many
bytes as if it had one rank, by R connections: between two hosts n of n bytes, as their network
counts, where among all ranks at once it sends 1.75 n with R = 2, and 2.34 n with R = 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.transports.mpi_buffers import BufferTransfer, Divide

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.transports.host_levels import HostLevels


class Group(Protocol):
    """The ranks that reduce, by communicators that may be replaced between two transfers.

    Attributes
    ----------
    comm : all ranks.
    levels : those of a host, and across the hosts; None where the shares are of all ranks.
    """

    comm: MPI.Comm
    levels: HostLevels | None


def reduction_in_shares(
    group: Group, count: int, element: ElementType, operation: MPI.Op, divide: Divide | None
) -> BufferTransfer:
    """Return the allreduce of `count` elements of a type that MPI can add.

    All ranks have the same result to the last bit: a share has the same on all that reduce it.
    """
    from mpi4py import MPI

    sharing = group.levels.within if group.levels else group.comm
    rank, size_of_sharing = sharing.Get_rank(), sharing.Get_size()
    block = count // size_of_sharing
    datatype, size = element.mpi, element.size
    share = slice(rank * block * size, (rank + 1) * block * size)
    shares = slice(size_of_sharing * block * size)
    rest = slice(shares.stop, count * size)
    # What lies in the share of a result in place is read until the reduction is done.
    reduced = memoryview(bytearray(block * size))

    def finish(target: memoryview) -> None:
        if divide is not None:
            divide(np.frombuffer(target, element.numpy))

    def reduce(send: Any, receive: Any) -> None:
        source, target = memoryview(send), memoryview(receive)
        in_place = send is receive
        into = reduced if in_place else target[share]
        levels = group.levels
        sharing = levels.within if levels else group.comm
        sharing.Reduce_scatter_block([source[shares], datatype], [into, datatype], operation)
        if levels:
            levels.across.Allreduce(MPI.IN_PLACE, [into, datatype], operation)
        finish(into)
        if in_place:
            target[share] = into
        sharing.Allgather(MPI.IN_PLACE, [target[shares], datatype])
        if rest.start < rest.stop:
            mine = MPI.IN_PLACE if in_place else [source[rest], datatype]
            group.comm.Allreduce(mine, [target[rest], datatype], operation)
            finish(target[rest])

    return reduce
