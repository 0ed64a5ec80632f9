"""Collectives between host memory, by MPI."""

from __future__ import annotations

import itertools
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

_PIECE_BYTES = 1 << 18
"""What each rank reduces at once. For a longer buffer MPICH takes as much memory again each time,
fresh from the operating system, and leaves the cache. Between two ranks of a host: 48 ms for
64 MiB, 25 in pieces; 0.39 ms for 1 MiB, 0.32 in pieces."""


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
        piece = max(1, self.size * _PIECE_BYTES // wide.size)
        operation, size = mpi_operation(request.op, wide.name), request.element.size

        def prepared(count: int) -> Transfer:
            reduce = self._reduction(count, wide, operation)
            return _in_wide_type(reduce, request, (count, count), self.size)

        return _in_pieces(prepared, request.count, piece, size)

    def _reduction(self, count: int, wide: ElementType, operation: MPI.Op) -> BufferTransfer:
        datatype = wide.mpi
        partners = self._partners(count * wide.size)
        incoming = [bytearray(count * wide.size if partners else 0), count, datatype]

        def reduce(send: Any, receive: Any) -> None:
            result = [receive, count, datatype]
            if partners and send is not receive:
                self._double([send, count, datatype], result, incoming, operation, partners)
            else:
                mine = self._in_place if send is receive else [send, count, datatype]
                self.comm.Allreduce(mine, result, operation)

        return reduce

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

        return _in_wide_type(reduce, request, (sum(counts), mine), self.size)

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


def _in_pieces(prepared: Callable[[int], Transfer], count: int, piece: int, size: int) -> Transfer:
    """The transfer of `count` elements of `size` bytes, at most `piece` of them at once."""
    if count <= piece:
        return prepared(count)
    whole, rest = divmod(count, piece)
    step = piece * size
    end = whole * step
    transfer, last = prepared(piece), prepared(rest) if rest else _nothing

    def transfer_all(send: int, receive: int) -> None:
        for offset in range(0, end, step):
            transfer(send + offset, receive + offset)
        last(send + end, receive + end)

    return transfer_all


def _in_wide_type(
    reduce: BufferTransfer, request: Allreduce | Reducescatter, counts: tuple[int, int], size: int
) -> Transfer:
    """`reduce`, which works on the element's wide type, between elements of its own.

    An Average of `size` ranks is divided here.

    Parameters
    ----------
    counts : how many elements are sent and received.
    """
    element, wide = request.element, request.element.wide
    sent, received = counts
    transfer = _between_buffers(reduce, sent * wide.size, received * wide.size)
    divide = _division(size, wide.numpy) if request.op is Average else None
    if element is wide:
        return transfer if divide is None else _divided(transfer, divide, received, wide)
    # Made once, so that a step of a long run allocates nothing.
    source = np.empty(sent, wide.numpy)
    target = np.empty(received, wide.numpy)
    addresses = source.ctypes.data, target.ctypes.data
    given, taken = _arrays(sent, element), _arrays(received, element)

    def widened(send: int, receive: int) -> None:
        np.copyto(source, given(send))
        transfer(*addresses)
        if divide is not None:
            divide(target)
        np.copyto(taken(receive), target, casting="same_kind")

    return widened


def _division(divisor: int, dtype: np.dtype[Any]) -> Callable[[np.ndarray], object]:
    """Divides an array in place."""
    # An array as the factor: NumPy would have to convert a number each time.
    if divisor & (divisor - 1) == 0:
        # The same to the last bit, and faster.
        factor = np.asarray(1 / divisor, dtype)
        return lambda array: np.multiply(array, factor, array)
    whole = np.asarray(divisor, dtype)
    return lambda array: np.divide(array, whole, array)


def _divided(
    transfer: Transfer,
    divide: Callable[[np.ndarray], object],
    received: int,
    element: ElementType,
) -> Transfer:
    result = _arrays(received, element)

    def divided(send: int, receive: int) -> None:
        transfer(send, receive)
        divide(result(receive))

    return divided


def _arrays(count: int, element: ElementType) -> Callable[[int], np.ndarray]:
    """Gives the array of `count` elements at an address."""
    from mpi4py import MPI

    dtype, nbytes = element.numpy, count * element.size

    @lru_cache(maxsize=_VIEWS_KEPT)
    def array(address: int) -> np.ndarray:
        memory: Any = MPI.memory.fromaddress(address, nbytes)
        return np.frombuffer(memory, dtype)

    return array
