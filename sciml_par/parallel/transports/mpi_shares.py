"""A long allreduce by MPI: each rank reduces an equal share, and all gather the shares.

That is the algorithm of Rabenseifner (Thakur, Rabenseifner and Gropp 2005, section 4.5), by MPI's
own two collectives. MPICH 5 has it within MPI_Allreduce as well, between the ranks of a host in
twice the time: 96 MB on 2, 3 and 4 ranks that share two cores in 36, 97 and 87 ms, and so in 16, 46
and 48. Its MPI_Reduce_scatter, which takes uneven shares, is six times as slow on four ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.transports.mpi_buffers import BufferTransfer, Divide

if TYPE_CHECKING:
    from mpi4py import MPI


def reduction_in_shares(
    comm: MPI.Comm, count: int, element: ElementType, operation: MPI.Op, divide: Divide | None
) -> BufferTransfer:
    """The allreduce of `count` elements of a type that MPI can add (local).

    All ranks have the same result to the last bit: each share is reduced on one rank.

    Parameters
    ----------
    comm : of two ranks or more.
    divide : what is done to the result, by each rank to its share alone.
    """
    from mpi4py import MPI

    rank, block = comm.Get_rank(), count // comm.Get_size()
    datatype, size = element.mpi, element.size
    share = slice(rank * block * size, (rank + 1) * block * size)
    shares = slice(comm.Get_size() * block * size)
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
        comm.Reduce_scatter_block([source[shares], datatype], [into, datatype], operation)
        finish(into)
        if in_place:
            target[share] = into
        comm.Allgather(MPI.IN_PLACE, [target[shares], datatype])
        if rest.start < rest.stop:
            mine = MPI.IN_PLACE if in_place else [source[rest], datatype]
            comm.Allreduce(mine, [target[rest], datatype], operation)
            finish(target[rest])

    return reduce
