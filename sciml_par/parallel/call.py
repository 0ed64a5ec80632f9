"""One collective as a program states it, and how MPI carries it out between two buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sciml_par.parallel.element_type import ELEMENT_TYPES, ElementType
from sciml_par.parallel.reduction import ReduceOp, mpi_operation
from sciml_par.parallel.signature import Signature

if TYPE_CHECKING:
    from sciml_par.parallel.communicator import Communicator

_SHORT_BYTES = 4096


class Call:
    """One call site of a collective.

    The first execution agrees with the other ranks on the signature; later ones only transfer.

    Parameters
    ----------
    communicator : the ranks that take part.
    signature : what is asked for.
    send_shape, receive_shape : this rank's input and output, static.
    """

    def __init__(
        self,
        communicator: Communicator,
        signature: Signature,
        send_shape: Sequence[int],
        receive_shape: Sequence[int],
    ) -> None:
        self.communicator = communicator
        self.signature = signature
        self.send_shape = tuple(send_shape)
        self.receive_shape = tuple(receive_shape)
        self.element: ElementType = ELEMENT_TYPES[signature.dtype]
        self.agreed = False

    def execute(self, send: Any, receive: Any) -> None:
        """Carry it out (collective).

        Parameters
        ----------
        send, receive : writable-buffer objects of the input's and the output's bytes; the same
            object twice means in place.
        """
        communicator = self.communicator
        # The watchdog reads these two: a number that stands still with a wish pending is a stall.
        communicator.sequence += 1
        communicator.pending = self.signature
        try:
            if not self.agreed:
                communicator.agree(self.signature)
                self.agreed = not communicator.check_always
            self._transfer(send, receive)
        finally:
            communicator.pending = None

    def _transfer(self, send: Any, receive: Any) -> None:
        raise NotImplementedError


def _count(shape: Sequence[int]) -> int:
    product = 1
    for n in shape:
        product *= n
    return product


class AllreduceCall(Call):
    """y = x_0 ∘ x_1 ∘ … on every rank."""

    def __init__(
        self, communicator: Communicator, dtype: str, shape: Sequence[int], op: ReduceOp
    ) -> None:
        signature = Signature("allreduce", dtype, tuple(shape), op=op)
        super().__init__(communicator, signature, shape, shape)
        self._count = _count(shape)
        self._datatype = self.element.mpi
        self._operation = mpi_operation(op, dtype)
        self._in_place = communicator.in_place
        nbytes = self._count * self.element.size
        self._partners = partners(communicator, nbytes)
        self._incoming = [bytearray(nbytes), self._count, self._datatype]

    def _transfer(self, send: Any, receive: Any) -> None:
        result = [receive, self._count, self._datatype]
        if send is receive:
            self.communicator.mpi.Allreduce(self._in_place, result, self._operation)
        elif self._partners:
            self._double([send, self._count, self._datatype], result)
        else:
            mine = [send, self._count, self._datatype]
            self.communicator.mpi.Allreduce(mine, result, self._operation)

    def _double(self, mine: list[Any], result: list[Any]) -> None:
        """Recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5).

        After round k all ranks of a group of 2^k have the group's result. They combine the same
        pairs, so that all results are the same to the last bit.
        """
        mpi, combine = self.communicator.mpi, self._operation.Reduce_local
        first, *others = self._partners
        mpi.Sendrecv(mine, first, 0, result, first, 0)
        combine(mine, result)
        for partner in others:
            mpi.Sendrecv(result, partner, 0, self._incoming, partner, 0)
            combine(self._incoming, result)


def partners(communicator: Communicator, nbytes: int) -> list[int]:
    """Whom this rank doubles with, round by round; none where MPI's own allreduce is to be used.

    MPICH 5 could double by itself, but for short buffers it chooses slower ways: 4.8 µs in place
    of 3.5 for 322 floats between two ranks, and 28 in place of 19 between four that share two
    cores. For long buffers, and in Open MPI, it chooses well.
    """
    size, rank = communicator.size, communicator.rank
    power_of_two = size > 1 and size & (size - 1) == 0
    if not (communicator.is_mpich and power_of_two and 0 < nbytes <= _SHORT_BYTES):
        return []
    return [rank ^ (1 << k) for k in range(size.bit_length() - 1)]


class BroadcastCall(Call):
    """y = x_root on every rank."""

    def __init__(
        self, communicator: Communicator, dtype: str, shape: Sequence[int], root: int
    ) -> None:
        signature = Signature("broadcast", dtype, tuple(shape), root=root)
        super().__init__(communicator, signature, shape, shape)
        self._bytes = _count(shape) * self.element.size
        self._root = root

    def _transfer(self, send: Any, receive: Any) -> None:
        if not self._bytes:
            return
        if self.communicator.rank == self._root and send is not receive:
            memoryview(receive).cast("B")[:] = memoryview(send).cast("B")
        self.communicator.mpi.Bcast([receive, self._bytes, self.communicator.byte], root=self._root)


class AllgatherCall(Call):
    """y = the ranks' x one below the other; their first dimensions may differ.

    Parameters
    ----------
    rows : the first dimension of every rank's tensor, [P].
    """

    def __init__(
        self, communicator: Communicator, dtype: str, shape: Sequence[int], rows: Sequence[int]
    ) -> None:
        trailing = tuple(shape[1:])
        signature = Signature("allgather", dtype, (None, *trailing))
        super().__init__(communicator, signature, shape, (sum(rows), *trailing))
        row_bytes = _count(trailing) * self.element.size
        self._counts = [n * row_bytes for n in rows]
        self._bytes = self._counts[communicator.rank]

    def _transfer(self, send: Any, receive: Any) -> None:
        byte = self.communicator.byte
        self.communicator.mpi.Allgatherv(
            [send, self._bytes, byte], [receive, self._counts, None, byte]
        )
