"""Collectives between host memory, by MPI."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.parallel.carrier import Carrier
from sciml_par.parallel.element_type import ElementType
from sciml_par.parallel.reduction import Average, mpi_operation
from sciml_par.parallel.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
    Transfer,
)

if TYPE_CHECKING:
    from mpi4py import MPI

_SHORT_BYTES = 4096
_VIEWS_KEPT = 64


class MPICommunicator(Carrier):
    """Carries every element type that sciml_par knows.

    MPI has no arithmetic on half-precision types: they are reduced in float32, which rounds once
    where 16 bits on the way would round P times.

    Parameters
    ----------
    comm : the group as mpi4py knows it, for tensors alone.
    """

    name = "MPI"

    def __init__(self, comm: MPI.Comm) -> None:
        from mpi4py import MPI

        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.is_mpich = MPI.get_vendor()[0] == "MPICH"
        self._byte = MPI.BYTE
        self._in_place = MPI.IN_PLACE

    def carries(self, request: Request) -> bool:
        return True

    def barrier(self) -> None:
        self.comm.Barrier()

    def allreduce(self, request: Allreduce) -> Transfer:
        wide = request.element.wide
        operation = mpi_operation(request.op, wide.name)
        count, datatype = request.count, wide.mpi
        partners = self._partners(count * wide.size)
        incoming = [bytearray(count * wide.size if partners else 0), count, datatype]

        def reduce(send: Any, receive: Any) -> None:
            result = [receive, count, datatype]
            if partners and send is not receive:
                self._double([send, count, datatype], result, incoming, operation, partners)
            else:
                mine = self._in_place if send is receive else [send, count, datatype]
                self.comm.Allreduce(mine, result, operation)

        return _in_wide_type(reduce, request, self.size)

    def _double(
        self,
        mine: list[Any],
        result: list[Any],
        incoming: list[Any],
        operation: MPI.Op,
        partners: list[int],
    ) -> None:
        """Recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5).

        After round k all ranks of a group of 2^k have the group's result. They combine the same
        pairs, so that all results are the same to the last bit.
        """
        exchange, combine = self.comm.Sendrecv, operation.Reduce_local
        first, *others = partners
        exchange(mine, first, 0, result, first, 0)
        combine(mine, result)
        for partner in others:
            exchange(result, partner, 0, incoming, partner, 0)
            combine(incoming, result)

    def _partners(self, nbytes: int) -> list[int]:
        """Whom this rank doubles with, round by round; none where MPI's own way is to be used.

        MPICH 5 could double by itself, but for short buffers it chooses slower ways: 4.8 µs in
        place of 3.5 for 322 floats between two ranks, and 28 in place of 19 between four that
        share two cores. For long buffers, and in Open MPI, it chooses well.
        """
        power_of_two = self.size > 1 and self.size & (self.size - 1) == 0
        if not (self.is_mpich and power_of_two and 0 < nbytes <= _SHORT_BYTES):
            return []
        return [self.rank ^ (1 << k) for k in range(self.size.bit_length() - 1)]

    def broadcast(self, request: Broadcast) -> Transfer:
        nbytes = request.count * request.element.size
        gives = self.rank == request.root

        def give(send: Any, receive: Any) -> None:
            if gives and send is not receive:
                memoryview(receive).cast("B")[:] = memoryview(send).cast("B")
            self.comm.Bcast([receive, nbytes, self._byte], root=request.root)

        return _between_buffers(give, nbytes, nbytes) if nbytes else _nothing

    def allgather(self, request: Allgather) -> Transfer:
        counts = [n * request.element.size for n in request.elements(request.rows)]
        mine = counts[self.rank]

        def gather(send: Any, receive: Any) -> None:
            self.comm.Allgatherv([send, mine, self._byte], [receive, counts, None, self._byte])

        return _between_buffers(gather, mine, sum(counts))

    def reducescatter(self, request: Reducescatter) -> Transfer:
        wide = request.element.wide
        operation = mpi_operation(request.op, wide.name)
        counts = request.elements(request.rows)
        mine, datatype = counts[self.rank], wide.mpi

        def reduce(send: Any, receive: Any) -> None:
            self.comm.Reduce_scatter(
                [send, sum(counts), datatype], [receive, mine, datatype], counts, operation
            )

        return _in_wide_type(reduce, request, self.size)

    def alltoall(self, request: Alltoall) -> Transfer:
        size = request.element.size
        sent = [n * size for n in request.elements(request.sent)]
        received = [n * size for n in request.elements(request.received)]
        send_layout = (sent, _offsets(sent))
        receive_layout = (received, _offsets(received))

        def exchange(send: Any, receive: Any) -> None:
            self.comm.Alltoallv(
                [send, send_layout, self._byte], [receive, receive_layout, self._byte]
            )

        return _between_buffers(exchange, sum(sent), sum(received))


BufferTransfer = Callable[[Any, Any], None]


def _nothing(send: int, receive: int) -> None:
    """The transfer of no elements."""


def _offsets(counts: list[int]) -> list[int]:
    return list(itertools.accumulate(counts, initial=0))[:-1]


def _between_buffers(transfer: BufferTransfer, sent: int, received: int) -> Transfer:
    """`transfer` between two addresses, as MPI sees their `sent` and `received` bytes."""
    from mpi4py import MPI

    from_address = MPI.memory.fromaddress

    # A compiled program comes back to the same few addresses; others come and go.
    @lru_cache(maxsize=_VIEWS_KEPT)
    def buffers(send: int, receive: int) -> tuple[Any, Any]:
        source = from_address(send, sent)
        return source, source if send == receive else from_address(receive, received)

    def between(send: int, receive: int) -> None:
        transfer(*buffers(send, receive))

    return between


def _in_wide_type(
    reduce: BufferTransfer, request: Allreduce | Reducescatter, size: int
) -> Transfer:
    """`reduce`, which works on the element's wide type, between elements of its own.

    An Average of `size` ranks is divided here.
    """
    element, wide = request.element, request.element.wide
    received = math.prod(request.receive_shape)
    transfer = _between_buffers(reduce, request.count * wide.size, received * wide.size)
    divisor = size if request.op is Average else None
    if element is wide:
        return transfer if divisor is None else _divided(transfer, wide, received, divisor)
    # Made once, so that a step of a long run allocates nothing.
    source = np.empty(request.count, wide.numpy)
    target = np.empty(received, wide.numpy)

    def widened(send: int, receive: int) -> None:
        np.copyto(source, _array(send, request.count, element))
        transfer(source.ctypes.data, target.ctypes.data)
        if divisor is not None:
            np.divide(target, divisor, out=target)
        np.copyto(_array(receive, received, element), target, casting="same_kind")

    return widened


def _divided(transfer: Transfer, element: ElementType, received: int, divisor: int) -> Transfer:
    def divided(send: int, receive: int) -> None:
        transfer(send, receive)
        result = _array(receive, received, element)
        np.divide(result, divisor, out=result)

    return divided


def _array(address: int, count: int, element: ElementType) -> np.ndarray:
    from mpi4py import MPI

    memory: Any = MPI.memory.fromaddress(address, count * element.size)
    return np.frombuffer(memory, element.numpy)
