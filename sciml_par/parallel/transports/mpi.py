"""Collectives between host memory, by MPI."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.requests.reduce_op import Average, Max, Min, Product, ReduceOp, Sum
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
)
from sciml_par.parallel.transports.mpi_buffers import (
    LONGEST_BYTES,
    BufferTransfer,
    Parts,
    between_buffers,
    divided,
    division,
    in_pieces,
    nothing,
    offsets_of,
    scattered_in_pieces,
)
from sciml_par.parallel.transports.mpi_combined import Combination, MachineCode, is_combined_here
from sciml_par.parallel.transports.transport import Transfer, Transport

if TYPE_CHECKING:
    from mpi4py import MPI

_SHORT_BYTES = 4096

_PIECE_BYTES = 1 << 20
"""The part of a buffer that each rank reduces at once. For a longer one MPICH allocates as much
memory again each time, and leaves the cache. Between two ranks of a host: 45 ms for
64 MiB, 19 in such pieces, 20 in quarters of them; 0.46 ms for 2 MiB, which are one piece, 0.60 in
quarters."""


class MPITransport(Transport):
    """Carries every element type that sciml_par knows.

    MPI has no arithmetic on half-precision types: see `mpi_combined.py`. They are reduced in
    float32, which rounds once where 16 bits on the way would round P times.

    Parameters
    ----------
    comm : mpi4py's communicator, for tensors only.
    longest : the most bytes of one call of MPI, or one block of a datatype; the same on all ranks.
        Longer tensors travel in parts that depend only on the request.
    shared : carries short tensors through shared memory, or None; alike on all ranks.
    machine_code : makes the code for `mpi_combined.py`, or None; alike on all ranks.
    """

    name = "MPI"

    def __init__(
        self,
        comm: MPI.Comm,
        *,
        longest: int = LONGEST_BYTES,
        shared: Any = None,
        machine_code: MachineCode | None = None,
    ) -> None:
        from mpi4py import MPI

        self.machine_code = machine_code
        self.comm = comm
        self._shared = shared
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.is_mpich = MPI.get_vendor()[0] == "MPICH"
        self._byte = MPI.BYTE
        self._in_place = MPI.IN_PLACE
        self.longest = longest

    @cached_property
    def itself(self) -> MPI.Comm:
        """A communicator of this rank for copies, shared by all call sites.

        MPI has some two thousand communicators, and a program may have more call sites.
        """
        from mpi4py import MPI

        return MPI.COMM_SELF.Dup()

    def free(self) -> None:
        """Free all but `comm` (collective)."""
        made = vars(self).pop("itself", None)
        if made is not None:
            made.Free()

    def prepare(self, request: Request) -> Transfer:
        if self._shared is not None and self._shared.carries(request):
            return self._shared.transfer(request)
        return super().prepare(request)

    def allreduce(self, request: Allreduce) -> Transfer:
        element = request.element
        if is_combined_here(request.op, element):
            return Combination(self, request).allreduce()
        operation = mpi_operation(request.op, element.name)
        divide = division(request.op, self.size, element)

        def prepared(count: int) -> Transfer:
            nbytes = count * element.size
            transfer = between_buffers(self._reduction(count, element, operation), nbytes, nbytes)
            return divided(transfer, divide, count, element)

        longest = max(1, min(self.size * _PIECE_BYTES, self.longest) // element.size)
        return in_pieces(prepared, request.count, longest, element.size)

    def _reduction(self, count: int, element: ElementType, operation: MPI.Op) -> BufferTransfer:
        datatype, nbytes = element.mpi, count * element.size
        partners: list[int] = []
        # For short buffers MPICH 5 chooses slower ways: 4.8 µs instead of 3.5 for 322 floats
        # between two ranks, and 28 instead of 19 between four that share two cores. For long
        # buffers, and in Open MPI, the choice is good.
        power_of_two = self.size > 1 and self.size & (self.size - 1) == 0
        if self.is_mpich and power_of_two and 0 < nbytes <= _SHORT_BYTES:
            partners = [self.rank ^ (1 << k) for k in range(self.size.bit_length() - 1)]
        incoming = [bytearray(nbytes if partners else 0), count, datatype]

        def reduce(send: Any, receive: Any) -> None:
            result = [receive, count, datatype]
            mine = self._in_place if send is receive else [send, count, datatype]
            if not partners or send is receive:
                self.comm.Allreduce(mine, result, operation)
                return
            # By recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5): after round
            # k all ranks of a group of 2^k have the group's result. They combine the same pairs,
            # so all results are the same to the last bit.
            exchange, combine = self.comm.Sendrecv, operation.Reduce_local
            first, *others = partners
            exchange(mine, first, 0, result, first, 0)
            combine(mine, result)
            for partner in others:
                exchange(result, partner, 0, incoming, partner, 0)
                combine(incoming, result)

        return reduce

    def broadcast(self, request: Broadcast) -> Transfer:
        gives, root = self.rank == request.root, request.root

        def prepared(nbytes: int) -> Transfer:
            def give(send: Any, receive: Any) -> None:
                if gives and send is not receive:
                    memoryview(receive).cast("B")[:] = memoryview(send).cast("B")
                self.comm.Bcast([receive, nbytes, self._byte], root=root)

            return between_buffers(give, nbytes, nbytes)

        return in_pieces(prepared, request.count * request.element.size, self.longest, 1)

    def allgather(self, request: Allgather) -> Transfer:
        counts = [n * request.element.size for n in request.elements(request.rows)]
        mine, offsets = counts[self.rank], offsets_of(counts)
        if sum(counts) > self.longest:
            # Ranks that send the same to all: MPI's own call has no way past ints of 32 bits.
            everywhere = Parts([mine] * self.size, [0] * self.size, self.longest)
            return self._exchange(everywhere, Parts(counts, offsets, self.longest))

        def gather(send: Any, receive: Any) -> None:
            self.comm.Allgatherv([send, mine, self._byte], [receive, counts, offsets, self._byte])

        return between_buffers(gather, mine, sum(counts)) if sum(counts) else nothing

    def reducescatter(self, request: Reducescatter) -> Transfer:
        element = request.element
        if is_combined_here(request.op, element):
            return Combination(self, request).reducescatter(request.rows)
        operation, datatype = mpi_operation(request.op, element.name), element.mpi
        piece = max(1, min(_PIECE_BYTES, self.longest // self.size) // element.size)

        def reduce(send: Any, receive: Any, counts: list[int]) -> None:
            mine = counts[self.rank]
            if min(counts) == max(counts):  # in MPICH six times as fast on four ranks
                self.comm.Reduce_scatter_block(
                    [send, mine, datatype], [receive, mine, datatype], operation
                )
                return
            self.comm.Reduce_scatter(
                [send, sum(counts), datatype], [receive, mine, datatype], counts, operation
            )

        return scattered_in_pieces(reduce, request, piece)

    def alltoall(self, request: Alltoall) -> Transfer:
        size = request.element.size
        sent = [n * size for n in request.elements(request.sent)]
        received = [n * size for n in request.elements(request.received)]
        return self._exchange(
            Parts(sent, offsets_of(sent), self.longest),
            Parts(received, offsets_of(received), self.longest),
        )

    def _exchange(self, sent: Parts, received: Parts) -> Transfer:
        """Return the transfer of every rank's parts to and from every other.

        It uses Alltoallw, because one rank may need other datatypes for its parts than others. In
        MPICH and Open MPI it is as fast as Alltoallv.
        """

        def exchange(send: Any, receive: Any) -> None:
            self.comm.Alltoallw([send, *sent.as_bytes], [receive, *received.as_bytes])

        def exchange_long(send: Any, receive: Any) -> None:
            with sent.described() as sending, received.described() as receiving:
                self.comm.Alltoallw([send, *sending], [receive, *receiving])

        transfer = exchange_long if sent.is_long or received.is_long else exchange
        return between_buffers(transfer, sent.nbytes, received.nbytes)


def mpi_operation(op: ReduceOp, dtype: str) -> MPI.Op:
    """Return MPI's operation for `op` on elements of `dtype` (Sum for Average)."""
    from mpi4py import MPI

    if dtype == "bool":
        return MPI.LOR if op is Max else MPI.LAND
    return {Sum: MPI.SUM, Average: MPI.SUM, Min: MPI.MIN, Max: MPI.MAX, Product: MPI.PROD}[op]
