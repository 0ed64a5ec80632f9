"""Many tensors in host memory as one flat buffer, packed when the collective runs.

XLA takes as long to pack and unpack 200 tensors as two ranks take to reduce them. MPI copies as
fast as the memory, given a datatype with all places.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.requests.request import Request, Shape

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.groups.communicator import Communicator

_LAYOUTS_KEPT = 32
_SHORT_BYTES = 1 << 16


class TensorBundleCall(PreparedCall):
    """A collective with many tensors as its flat operand, and its results in their place."""

    def __init__(
        self, communicator: Communicator, request: Request, shapes: Sequence[Shape]
    ) -> None:
        super().__init__(communicator, request, communicator.mpi_transport)
        lengths = [math.prod(shape) * request.element.size for shape in shapes]
        if self.shared is None:
            self._transfer = self._packing_transfer(communicator, lengths)
        else:
            self.shared.in_parts(lengths)
            shared = self.shared

            def transfer(addresses: bytes) -> None:
                address = ctypes.cast(ctypes.c_char_p(addresses), ctypes.c_void_p).value or 0
                shared(address, address)

            self._transfer = transfer

    def _packing_transfer(
        self, communicator: Communicator, lengths: Sequence[int]
    ) -> Callable[[bytes], None]:
        request = self.request
        # A short buffer is reduced faster into another one; a long one stays in the cache.
        nbytes = request.count * request.element.size
        flat = np.empty((2 if nbytes < _SHORT_BYTES else 1, request.count), request.element.numpy)
        packing = _Layouts(lengths)
        transfer, send, receive = self._transfer, flat[0].ctypes.data, flat[-1].ctypes.data
        sent, received = ([part, nbytes, packing.byte] for part in (flat[0], flat[-1]))
        # MPI copies fastest by sending to itself; MPI_Pack is 20 times as slow in MPICH 5.
        copy = communicator.mpi_transport.itself.Sendrecv

        def transfer_all(addresses: bytes) -> None:
            tensors = [packing.bottom, 1, packing.layout(addresses)]
            copy(tensors, 0, 0, sent, 0, 0)
            transfer(send, receive)
            copy(received, 0, 0, tensors, 0, 0)

        return transfer_all


def _free(layouts: OrderedDict[bytes, MPI.Datatype]) -> None:
    from mpi4py import MPI

    if not MPI.Is_finalized():
        for layout in layouts.values():
            layout.Free()


class _Layouts:
    """MPI's datatypes of the places of tensors in memory."""

    def __init__(self, lengths: Sequence[int]) -> None:
        from mpi4py import MPI

        self._lengths = lengths
        self.byte, self.bottom = MPI.BYTE, MPI.BOTTOM
        # A program uses the same few places in memory.
        self._layouts: OrderedDict[bytes, MPI.Datatype] = OrderedDict()
        weakref.finalize(self, _free, self._layouts).atexit = False

    def layout(self, addresses: bytes) -> MPI.Datatype:
        """Return the datatype of the tensors' places; valid until the next call."""
        layout = self._layouts.get(addresses)
        if layout is None:
            if len(self._layouts) == _LAYOUTS_KEPT:
                self._layouts.popitem(last=False)[1].Free()
            places = np.frombuffer(addresses, np.uint64).tolist()
            layout = self.byte.Create_hindexed(self._lengths, places).Commit()
            self._layouts[addresses] = layout
        return layout
