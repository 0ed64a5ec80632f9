"""Many tensors in host memory that travel as one flat buffer, packed where the collective runs.

To lay 200 tensors in one and to cut the result apart, XLA takes as long as two ranks take to reduce
them. MPI copies as fast as memory is, if it is told once where everything lies.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.parallel.call import Call
from sciml_par.parallel.request import Request, Shape

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.communicator import Communicator

_LAYOUTS_KEPT = 32


class BundleCall(Call):
    """A collective whose flat operand is many tensors, each of which its result replaces.

    `execute` takes their addresses.

    Parameters
    ----------
    request : for the flat tensor; its result is as long.
    shapes : of the tensors, which have as many elements together.
    """

    def __init__(
        self, communicator: Communicator, request: Request, shapes: Sequence[Shape]
    ) -> None:
        super().__init__(communicator, request, communicator.by_mpi)
        flat = np.empty((2, request.count), request.element.numpy)
        packing = _Packing([math.prod(shape) * request.element.size for shape in shapes])
        transfer, (send, receive) = self._transfer, (row.ctypes.data for row in flat)

        def transfer_all(addresses: Sequence[int]) -> None:
            layout = packing.layout(addresses)
            packing.pack(layout, flat[0])
            transfer(send, receive)
            packing.unpack(flat[1], layout)

        self._transfer = transfer_all


class _Packing:
    """Copies between tensors and a flat buffer (local).

    Parameters
    ----------
    lengths : of the tensors, in bytes.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        from mpi4py import MPI

        self._lengths = lengths
        self._bytes = MPI.BYTE
        self._bottom = MPI.BOTTOM
        self._total = sum(lengths)
        # A program comes back to the same few places in memory.
        self._layouts: OrderedDict[tuple[int, ...], MPI.Datatype] = OrderedDict()
        # This rank sends to itself, which is how MPI copies the fastest; MPI_Pack is 20 times as
        # slow in MPICH 5. Nobody else may use the communicator at the same time.
        self._itself = MPI.COMM_SELF.Dup()

    def __del__(self) -> None:
        from mpi4py import MPI

        if not MPI.Is_finalized():
            while self._layouts:
                self._layouts.popitem()[1].Free()
            self._itself.Free()

    def pack(self, layout: MPI.Datatype, flat: np.ndarray) -> None:
        """Copy from the tensors."""
        self._copy([self._bottom, 1, layout], [flat, self._total, self._bytes])

    def unpack(self, flat: np.ndarray, layout: MPI.Datatype) -> None:
        """Copy to the tensors."""
        self._copy([flat, self._total, self._bytes], [self._bottom, 1, layout])

    def _copy(self, source: list[Any], target: list[Any]) -> None:
        self._itself.Sendrecv(source, 0, 0, target, 0, 0)

    def layout(self, addresses: Sequence[int]) -> MPI.Datatype:
        """Where the tensors lie, as MPI describes it; valid until others have been asked for."""
        key = tuple(addresses)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) == _LAYOUTS_KEPT:
                self._layouts.popitem(last=False)[1].Free()
            layout = self._bytes.Create_hindexed(self._lengths, key).Commit()
            self._layouts[key] = layout
        return layout
