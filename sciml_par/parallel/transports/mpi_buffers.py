"""Host memory as MPI and NumPy see it from its address, and transfers in pieces of it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.parallel.requests.element_type import ElementType
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp
from sciml_par.parallel.requests.request import Reducescatter
from sciml_par.parallel.transports.transport import Transfer

if TYPE_CHECKING:
    from mpi4py import MPI

LONGEST_BYTES = 1 << 30
"""What one call of MPI is given at the most. Before MPI 4 counts and offsets are ints of 32 bits,
and libraries of today (Open MPI 5) have nothing longer."""

_VIEWS_KEPT = 64

Divide = Callable[[np.ndarray], object]
"""Works on an array in place."""

BufferTransfer = Callable[[Any, Any], None]
"""Takes the two buffers; the same one twice means in place."""


def nothing(send: int, receive: int) -> None:
    """The transfer of no elements."""


def between_buffers(transfer: BufferTransfer, sent: int, received: int) -> Transfer:
    """`transfer` between two addresses, as MPI sees their `sent` and `received` bytes."""
    from mpi4py import MPI

    from_address = MPI.memory.fromaddress

    # A compiled program comes back to the same few addresses; others come and go.
    @lru_cache(maxsize=_VIEWS_KEPT)
    def buffers(send: int, receive: int) -> tuple[Any, Any]:
        source = from_address(send, sent)
        # No bytes may lie anywhere, also where the result does: that is no transfer in place.
        in_place = send == receive and sent == received
        return source, source if in_place else from_address(receive, received)

    def between(send: int, receive: int) -> None:
        transfer(*buffers(send, receive))

    return between


class Parts:
    """Parts of a buffer, one for each rank, as MPI's Alltoallw takes them.

    A part that is beyond MPI's ints gets a datatype of its own, which holds its offset, and its
    length in blocks (Hammond, Schäfer and Latham 2014, "To INT_MAX... and beyond!").

    Parameters
    ----------
    lengths, offsets : of each part in bytes, [P].
    longest : what MPI is given as an int, at the most.

    Attributes
    ----------
    nbytes : where the last part ends.
    is_long : whether one of them needs a datatype of its own.
    as_bytes : ((counts, offsets), datatypes) where none does.
    """

    def __init__(self, lengths: Sequence[int], offsets: Sequence[int], longest: int) -> None:
        from mpi4py import MPI

        parts = list(zip(lengths, offsets, strict=True))
        self.nbytes = max(n + offset for n, offset in parts)
        self._longest = longest
        self._long = {r: p for r, p in enumerate(parts) if p[0] and sum(p) > longest}
        # Empty parts may lie beyond as well, where nobody looks.
        self._layout = (
            [1 if r in self._long else n for r, (n, _) in enumerate(parts)],
            [0 if r in self._long or not n else offset for r, (n, offset) in enumerate(parts)],
        )
        self._types: list[MPI.Datatype] = [MPI.BYTE] * len(parts)
        self.is_long = bool(self._long)
        self.as_bytes = (self._layout, self._types)

    @contextlib.contextmanager
    def described(self) -> Iterator[tuple[Any, list[MPI.Datatype]]]:
        """((counts, offsets), datatypes), for as long as the context lasts."""
        types = list(self._types)
        for r, (length, offset) in self._long.items():
            types[r] = _bytes_from(offset, length, self._longest)
        try:
            yield self._layout, types
        finally:
            for r in self._long:
                types[r].Free()


def _bytes_from(offset: int, length: int, longest: int) -> MPI.Datatype:
    """The datatype of `length` bytes that lie `offset` behind the address that goes with it."""
    from mpi4py import MPI

    blocks, rest = divmod(length, longest)
    block = MPI.BYTE.Create_contiguous(longest)
    try:
        places = [offset, offset + blocks * longest]
        return MPI.Datatype.Create_struct([blocks, rest], places, [block, MPI.BYTE]).Commit()
    finally:
        block.Free()


def in_pieces(prepared: Callable[[int], Transfer], count: int, piece: int, size: int) -> Transfer:
    """Return the transfer of `count` elements of `size` bytes, at most `piece` of them at once."""
    if count <= piece:
        return prepared(count) if count else nothing
    whole, rest = divmod(count, piece)
    step = piece * size
    end = whole * step
    transfer, last = prepared(piece), prepared(rest) if rest else nothing

    def transfer_all(send: int, receive: int) -> None:
        for offset in range(0, end, step):
            transfer(send + offset, receive + offset)
        last(send + end, receive + end)

    return transfer_all


def scattered_in_pieces(
    reduce: Callable[[Any, Any, list[int]], None], request: Reducescatter, piece: int
) -> Transfer:
    """`reduce`, for at most `piece` elements of each rank's part at once.

    What lies apart in a long tensor has to lie together for MPI, which takes as much memory again,
    twice, for what it reduces at once.
    """
    counts = request.elements(request.rows)
    if max(counts) > piece:
        return _pieces_of_parts(reduce, request, piece)
    if not any(counts):
        return nothing
    element, received = request.element, counts[request.rank]
    transfer = between_buffers(
        lambda send, receive: reduce(send, receive, counts),
        sum(counts) * element.size,
        received * element.size,
    )
    return divided(transfer, division(request.op, len(counts), element), received, element)


def _pieces_of_parts(
    reduce: Callable[[Any, Any, list[int]], None], request: Reducescatter, piece: int
) -> Transfer:
    counts, element = request.elements(request.rows), request.element
    size, rank = len(counts), request.rank
    ends = list(itertools.accumulate(counts))
    given, taken = arrays(ends[-1], element), arrays(counts[rank], element)
    source, target = np.empty(size * piece, element.numpy), np.empty(piece, element.numpy)
    divide = division(request.op, size, element)

    def pieces(send: int, receive: int) -> None:
        x, y = given(send), taken(receive)
        for begin in range(0, max(counts), piece):
            places = [slice(min(begin, n), min(begin + piece, n)) for n in counts]
            lengths = [place.stop - place.start for place in places]
            parts = [
                x[end - n + place.start : end - n + place.stop]
                for end, n, place in zip(ends, counts, places, strict=True)
            ]
            np.concatenate(parts, out=source[: sum(lengths)])
            reduce(source, target, lengths)
            result = target[: lengths[rank]]
            if divide is not None:
                divide(result)
            np.copyto(y[places[rank]], result)

    return pieces


def division(op: ReduceOp, divisor: int, element: ElementType) -> Divide | None:
    """Divides the sum of so many ranks in place, for an Average; else None."""
    if op is not Average:
        return None
    dtype = element.numpy
    # An array as the factor: NumPy would have to convert a number each time.
    if divisor & (divisor - 1) == 0:
        # The same to the last bit, and faster.
        factor = np.asarray(1 / divisor, dtype)
        return lambda array: np.multiply(array, factor, array)
    whole = np.asarray(divisor, dtype)
    return lambda array: np.divide(array, whole, array)


def divided(
    transfer: Transfer, divide: Divide | None, received: int, element: ElementType
) -> Transfer:
    """Return `transfer`, with a division of the result behind it."""
    if divide is None:
        return transfer
    result = arrays(received, element)

    def transfer_and_divide(send: int, receive: int) -> None:
        transfer(send, receive)
        divide(result(receive))

    return transfer_and_divide


def arrays(count: int, element: ElementType) -> Callable[[int], np.ndarray]:
    """Gives the array of `count` elements at an address."""
    from mpi4py import MPI

    dtype, nbytes = element.numpy, count * element.size

    @lru_cache(maxsize=_VIEWS_KEPT)
    def array(address: int) -> np.ndarray:
        memory: Any = MPI.memory.fromaddress(address, nbytes)
        return np.frombuffer(memory, dtype)

    return array
