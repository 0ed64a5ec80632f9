"""Buffers of MPI and NumPy at addresses in host memory, and transfers in pieces."""

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
"""The most bytes of one call of MPI. Before MPI 4, and in Open MPI 5, counts and offsets are ints
of 32 bits."""

_VIEWS_KEPT = 64

Divide = Callable[[np.ndarray], object]
"""Works on an array in place."""

BufferTransfer = Callable[[Any, Any], None]
"""Takes the two buffers; the same one twice means in place."""


def offsets_of(lengths: Sequence[int]) -> list[int]:
    """Return where each part begins."""
    return list(itertools.accumulate(lengths, initial=0))[:-1]


def nothing(send: int, receive: int) -> None:
    """Transfer no elements."""


def between_buffers(transfer: BufferTransfer, sent: int, received: int) -> Transfer:
    """Return `transfer` between addresses of `sent` and `received` bytes."""
    from mpi4py import MPI

    from_address = MPI.memory.fromaddress

    # A compiled program uses the same few addresses again.
    @lru_cache(maxsize=_VIEWS_KEPT)
    def buffers(send: int, receive: int) -> tuple[Any, Any]:
        source = from_address(send, sent)
        # Zero bytes may be at the result's address: that is not a transfer in place.
        in_place = send == receive and sent == received
        return source, source if in_place else from_address(receive, received)

    def between(send: int, receive: int) -> None:
        transfer(*buffers(send, receive))

    return between


class Parts:
    """Parts of a buffer, one for each rank, as MPI's Alltoallw takes them.

    A part that is beyond MPI's ints gets a separate datatype, with its offset and its length in
    blocks (Hammond, Schäfer and Latham 2014, "To INT_MAX... and beyond!").

    Parameters
    ----------
    lengths, offsets : of each part in bytes, [P].
    longest : the largest int for MPI.

    Attributes
    ----------
    nbytes : the end of the last part.
    is_long : whether a part needs a separate datatype.
    as_bytes : ((counts, offsets), datatypes) if none does.
    """

    def __init__(self, lengths: Sequence[int], offsets: Sequence[int], longest: int) -> None:
        from mpi4py import MPI

        parts = list(zip(lengths, offsets, strict=True))
        self.nbytes = max(n + offset for n, offset in parts)
        self._longest = longest
        self._long = {r: p for r, p in enumerate(parts) if p[0] and sum(p) > longest}
        # Empty parts may be beyond as well.
        self._layout = (
            [1 if r in self._long else n for r, (n, _) in enumerate(parts)],
            [0 if r in self._long or not n else offset for r, (n, offset) in enumerate(parts)],
        )
        self._types: list[MPI.Datatype] = [MPI.BYTE] * len(parts)
        self.is_long = bool(self._long)
        self.as_bytes = (self._layout, self._types)

    @contextlib.contextmanager
    def described(self) -> Iterator[tuple[Any, list[MPI.Datatype]]]:
        """Give ((counts, offsets), datatypes), valid inside the context."""
        types = list(self._types)
        for r, (length, offset) in self._long.items():
            types[r] = _bytes_from(offset, length, self._longest)
        try:
            yield self._layout, types
        finally:
            for r in self._long:
                types[r].Free()


def _bytes_from(offset: int, length: int, longest: int) -> MPI.Datatype:
    """Return the datatype of `length` bytes at `offset` from the buffer's address."""
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
    """Return the transfer by `reduce` of at most `piece` elements of each rank's part at once."""
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
    """Return the division by the number of ranks in place, for an Average; else None."""
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
    """Return `transfer` followed by the division of the result."""
    if divide is None:
        return transfer
    result = arrays(received, element)

    def transfer_and_divide(send: int, receive: int) -> None:
        transfer(send, receive)
        divide(result(receive))

    return transfer_and_divide


def arrays(count: int, element: ElementType) -> Callable[[int], np.ndarray]:
    """Return a function from an address to the array of `count` elements there."""
    from mpi4py import MPI

    dtype, nbytes = element.numpy, count * element.size

    @lru_cache(maxsize=_VIEWS_KEPT)
    def array(address: int) -> np.ndarray:
        memory: Any = MPI.memory.fromaddress(address, nbytes)
        return np.frombuffer(memory, dtype)

    return array
