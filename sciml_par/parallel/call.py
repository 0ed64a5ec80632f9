"""One collective as a program states it, and how MPI carries it out between two buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sciml_par.parallel.element_type import ELEMENT_TYPES, ElementType
from sciml_par.parallel.reduction import ReduceOp, mpi_operation
from sciml_par.parallel.signature import Signature

if TYPE_CHECKING:
    from sciml_par.parallel.communicator import Communicator


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

    def _transfer(self, send: Any, receive: Any) -> None:
        source = self._in_place if send is receive else [send, self._count, self._datatype]
        self.communicator.mpi.Allreduce(
            source, [receive, self._count, self._datatype], self._operation
        )


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
