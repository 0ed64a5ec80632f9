"""Reductions by MPI whose arithmetic MPI lacks: the ranks exchange elements and combine them here.

These are those of 16-bit floating-point numbers, which travel as they are and are combined in
float32, and Min and Max of all floating-point numbers, in which a NaN on any rank wins: MPI leaves
open what becomes of it.

Each rank gets what all have of its share, and combines that; after an allreduce all gather the
shares, as in the algorithm of Rabenseifner (Thakur, Rabenseifner and Gropp 2005, section 4.5).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.requests.reduce_op import Max, Min, Product, ReduceOp, in_pairs
from sciml_par.parallel.requests.request import Allreduce, Reducescatter
from sciml_par.parallel.transports.mpi_buffers import (
    BufferTransfer,
    arrays,
    between_buffers,
    division,
    in_pieces,
    nothing,
    offsets_of,
)
from sciml_par.parallel.transports.transport import Transfer

_ROOM_BYTES = 16 << 20
_LARGEST_SHARE_BYTES, _SMALLEST_SHARE_BYTES = 4 << 20, 1 << 12
"""What a rank holds at once of what all ranks have, and the bounds of one rank's part of it."""

_SHORT_BYTES = 1 << 15
"""Up to here, of all ranks together, each rank combines all elements, and nothing is gathered."""

_FEW_RANKS = 4
"""Up to here ranks exchange short buffers in pairs, and beyond by MPI_Allgather."""

_TAG = 1
"""Unlike that of `MPITransport`, so that two algorithms never pair in silence."""

Words = ctypes.Array[ctypes.c_int64]

Combine = Callable[[Words, int, int], object]
"""Takes the addresses of what each rank gives, that of the result, and the number of elements."""

MachineCode = Callable[[ReduceOp, str, int], Callable[[int, int, int], object]]
"""Gives, for an operation, a type and a number of ranks, a `Combine` that takes an address."""


def is_combined_here(op: ReduceOp, element: ElementType) -> bool:
    """Return whether MPI lacks the arithmetic."""
    is_half = element.wide is not element
    return is_half or (op in (Min, Max) and element.name in ("float32", "float64"))


class Combination:
    """The reduction of one call site by the ranks of an `MPITransport`."""

    def __init__(self, group: Any, request: Allreduce | Reducescatter) -> None:
        element = request.element
        self._group = group
        self._count, self._row, self._element = request.count, request.row, element
        share = min(_LARGEST_SHARE_BYTES, _ROOM_BYTES // group.size)
        share = min(max(share, _SMALLEST_SHARE_BYTES), group.longest // group.size)
        self._share = max(1, min(request.count, share // element.size))
        """How many elements a rank combines at once."""
        # A rest of fewer elements than ranks has to fit as well.
        room = group.size * max(self._share, group.size) * element.size
        self._room = np.empty(room, np.uint8)
        self._combine = self._by_numpy(request.op)
        if group.machine_code is not None:
            function = group.machine_code(request.op, element.name, group.size)
            self._combine = lambda places, receive, count: function(
                ctypes.addressof(places), receive, count
            )

    def allreduce(self) -> Transfer:
        """Return the transfer of an allreduce, in pieces."""
        piece = self._group.size * self._share
        return in_pieces(self._in_shares, self._count, piece, self._element.size)

    def reducescatter(self, rows: Sequence[int]) -> Transfer:
        """Return the transfer of a reducescatter, in pieces of each rank's part."""
        size = self._element.size
        lengths = [n * self._row * size for n in rows]
        offsets, piece = offsets_of(lengths), self._share * size
        pieces = []
        for begin in range(0, max(lengths), piece):
            parts = [max(0, min(piece, n - begin)) for n in lengths]
            places = [offset + begin for offset in offsets]
            pieces.append((begin, self._scattered(parts, places)))

        def transfer(send: int, receive: int) -> None:
            for begin, carry in pieces:
                carry(send, receive + begin)

        return transfer

    def _in_shares(self, count: int) -> Transfer:
        """Return the transfer of `count` elements, at most one share of each rank."""
        size, everyone = self._element.size, self._group.size
        if count < everyone or (count <= self._share and count * everyone * size <= _SHORT_BYTES):
            return self._of_short(count)
        each, rest = divmod(count, everyone)
        block, whole = each * size, everyone * each * size
        lengths = [block] * everyone
        scatter, first = self._scattered(lengths, offsets_of(lengths)), self._group.rank * block
        of_rest = self._of_short(rest) if rest else nothing

        def gather(_: Any, result: Any) -> None:
            from mpi4py import MPI

            self._group.comm.Allgather(MPI.IN_PLACE, [result, block, MPI.BYTE])

        gathered = between_buffers(gather, whole, whole)

        def transfer(send: int, receive: int) -> None:
            scatter(send, receive + first)
            gathered(receive, receive)
            of_rest(send + whole, receive + whole)

        return transfer

    def _scattered(self, lengths: Sequence[int], offsets: Sequence[int]) -> Transfer:
        """Return the transfer of which each rank gets a share; `lengths`, `offsets`: bytes, [P]."""
        group, room = self._group, self._room.ctypes.data
        mine, begin = lengths[group.rank], offsets[group.rank]
        places, own = self._places(mine)
        count = mine // self._element.size
        parts = list(zip(offsets, lengths, strict=True))
        sent = max(sum(part) for part in parts)
        exchanged = between_buffers(self._exchange(parts, mine), sent, self._room.nbytes)

        def transfer(send: int, receive: int) -> None:
            exchanged(send, room)
            here = send + begin
            if here == receive:  # which is written while it is read
                ctypes.memmove(own, here, mine)
                here = own
            places[group.rank] = here
            self._combine(places, receive, count)

        return transfer

    def _of_short(self, count: int) -> Transfer:
        """Return the transfer in which each rank combines all elements."""
        group, nbytes, room = self._group, count * self._element.size, self._room.ctypes.data
        places, own = self._places(nbytes)

        def gather(send: Any, everyone: Any) -> None:
            from mpi4py import MPI

            group.comm.Allgather([send, MPI.BYTE], [everyone, nbytes, MPI.BYTE])

        in_pairs_of_ranks = self._exchange([(0, nbytes)] * group.size, nbytes)
        way = in_pairs_of_ranks if group.size <= _FEW_RANKS else gather
        gathered = between_buffers(way, nbytes, self._room.nbytes)

        def transfer(send: int, receive: int) -> None:
            gathered(send, room)
            ctypes.memmove(own, send, nbytes)
            self._combine(places, receive, count)

        return transfer

    def _places(self, length: int) -> tuple[Words, int]:
        """Return where the ranks' parts of that length go in the room, and where this rank's."""
        size, room = self._group.size, self._room.ctypes.data
        addresses = [room + rank * length for rank in range(size)]
        return (ctypes.c_int64 * size)(*addresses), addresses[self._group.rank]

    def _exchange(self, parts: Sequence[tuple[int, int]], mine: int) -> BufferTransfer:
        """Return what gives each other rank its part, and takes `mine` bytes from it."""
        group, steps = self._group, range(1, self._group.size)
        turns = [((group.rank + k) % group.size, (group.rank - k) % group.size) for k in steps]

        def exchange(send: Any, everyone: Any) -> None:
            from mpi4py import MPI

            for to, source in turns:
                begin, length = parts[to]
                given, taken = send[begin : begin + length], everyone[source * mine :][:mine]
                group.comm.Sendrecv([given, MPI.BYTE], to, _TAG, [taken, MPI.BYTE], source, _TAG)

        return exchange

    def _by_numpy(self, op: ReduceOp) -> Combine:
        """Return what gives the same bits."""
        element, wide = self._element, self._element.wide
        function = {Min: np.minimum, Max: np.maximum, Product: np.multiply}.get(op, np.add)
        divide = division(op, self._group.size, wide)

        def combine(places: Words, receive: int, count: int) -> None:
            view = arrays(count, element)
            everyone = [view(place).astype(wide.numpy, copy=False) for place in places]
            with np.errstate(all="ignore"):
                total = in_pairs(everyone, function)
                if divide is not None:
                    divide(total)
                np.copyto(view(receive), total, casting="same_kind")

        return combine
