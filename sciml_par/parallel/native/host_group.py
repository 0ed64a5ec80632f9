"""A group of ranks on one host, as the machine code sees it, and its transfers."""

from __future__ import annotations

import ctypes
import weakref
import zlib
from collections.abc import Sequence

from sciml_par.errors import TransferError
from sciml_par.parallel.native.code import NativeCode, words
from sciml_par.parallel.native.combination import can_combine
from sciml_par.parallel.native.interrupts import take
from sciml_par.parallel.native.layout import COMPARING, WORD, Flag, Group, Kind, Outcome, Site
from sciml_par.parallel.native.machine_code import combining
from sciml_par.parallel.native.shared_memory import SharedMemory
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Announcement,
    Broadcast,
    Request,
)

_SLOT_BYTES, _ALL_SLOTS_BYTES = 1 << 20, 1 << 22
"""The most bytes of half a rank's slot, and of all ranks'. Each rank reads all slots, in place of
the two or so that MPI lets it read of a long tensor. Two ranks, each with a core: 3.3 µs in place
of 5.4 for 1.3 KB, 13 in place of 27 for 64 KB, 270 in place of 540 for 800 KB."""

_PAGE = 4096

_SPIN_SECONDS, _SHORT_SPIN_SECONDS = 60e-6, 1e-6
"""The time that a rank watches a flag before it sleeps, with a core for each rank and without."""

_SLEEP_NANOSECONDS = 100_000_000
"""A waiting rank checks signals after this time, or twice this time."""

_GONE = -1


class DifferentRequestError(TransferError):
    """Ranks have met with different requests, all agreed on before."""


def longest_bytes(size: int) -> int:
    """Return the most bytes that each of `size` ranks can give at once."""
    return max(_PAGE, min(_SLOT_BYTES, _ALL_SLOTS_BYTES // size // _PAGE * _PAGE))


def bytes_of_memory(size: int) -> int:
    """Return the bytes of shared memory that a group of `size` ranks needs."""
    return size * (WORD * Flag.LENGTH + 2 * longest_bytes(size))


class HostGroup:
    """The group's records and shared memory."""

    def __init__(
        self, code: NativeCode, rank: int, size: int, memory: SharedMemory, *, crowded: bool
    ) -> None:
        self.code = code
        self.rank = rank
        self.size = size
        self.longest = longest_bytes(size)
        self.comparisons = 0
        self._memory = memory
        self.words = words(Group.LENGTH)
        self.address = ctypes.addressof(self.words)
        base = memory.address
        self.words[Group.GENERATION] = 1
        self.words[Group.RANK], self.words[Group.SIZE] = rank, size
        self.words[Group.FLAGS] = base
        self.words[Group.SLOTS] = base + size * WORD * Flag.LENGTH
        self.words[Group.STRIDE] = self.longest
        seconds = _SHORT_SPIN_SECONDS if crowded else _SPIN_SECONDS
        self.words[Group.SPINS] = max(1, round(seconds / code.spin_seconds))
        self.words[Group.SLEEP + 1] = _SLEEP_NANOSECONDS
        self._numbers: dict[Announcement, int] = {}
        self._announcements: list[Announcement] = []

    def number_of(self, announcement: Announcement) -> int:
        """Return the announcement's number > 0 in machine code, equal for equal ones."""
        number = self._numbers.get(announcement)
        if number is None:
            self._announcements.append(announcement)
            number = self._numbers[announcement] = len(self._announcements)
        return number

    def announcement(self, number: int) -> Announcement:
        """Return the announcement of that number."""
        return self._announcements[number - 1]

    def carries(self, request: Request) -> bool:
        """Return whether a request goes through shared memory; the same on all ranks."""
        lengths = _lengths(request)
        if not 0 < max(lengths) <= self.longest:
            return False
        match request:
            case Allreduce():
                real = request.in_reals
                return can_combine(real.op, real.dtype)
            case Broadcast() | Allgather():
                return True
        return False

    def transfer(self, request: Request) -> SharedTransfer:
        """Return the transfer of a request that the group `carries`."""
        return SharedTransfer(self, request)

    def announce_comparison(self) -> None:
        """Tell ranks that wait in a transfer that this one compares its request."""
        self.comparisons += 1
        self.code.meet(self.address, COMPARING)

    def close(self) -> None:
        """Give up the group, and refuse later requests."""
        self.words[Group.USELESS] = 1
        self.refuse()

    def refuse(self) -> None:
        """Let Python decide about all later requests."""
        self.words[Group.GENERATION] = _GONE


class SharedTransfer:
    """Carries out one request through shared memory: `transfer(send, receive)` (collective)."""

    def __init__(self, group: HostGroup, request: Request) -> None:
        self._group = group
        self._request = request
        record = self.record = group.code.site_record()
        weakref.finalize(self, group.code.give_back, record).atexit = False
        self._address = ctypes.addressof(record)
        self._carry = group.code.transfer
        lengths = _lengths(request)
        self._lengths = words(len(lengths), lengths)
        record[Site.GROUP] = group.address
        record[Site.LENGTHS] = ctypes.addressof(self._lengths)
        record[Site.COMPARED] = _compared(request)
        match request:
            case Allreduce():
                real = request.in_reals
                record[Site.KIND], record[Site.GIVEN] = Kind.ALLREDUCE, lengths[0]
                record[Site.COUNT] = real.count
                distance = 2 * group.longest
                self._combining = combining(real.op, real.dtype, group.size, distance)
                record[Site.COMBINE] = self._combining.address("combine")
            case Broadcast(root=root):
                record[Site.KIND], record[Site.ROOT] = Kind.BROADCAST, root
                record[Site.GIVEN] = lengths[0] if root == group.rank else 0
            case Allgather():
                record[Site.KIND], record[Site.GIVEN] = Kind.ALLGATHER, lengths[group.rank]
            case _:
                raise TypeError(f"not through shared memory: {request!r}")

    def __call__(self, send: int, receive: int) -> None:
        outcome = self._carry(self._address, send, receive)
        if outcome == Outcome.GIVEN_UP:
            interrupted, error = self._group.code.take_interrupt(), take()
            if error is not None or interrupted:
                raise error or KeyboardInterrupt
        if outcome != Outcome.DONE:
            self.check(outcome)

    def in_parts(self, lengths: Sequence[int]) -> None:
        """Take the elements from tensors of these byte `lengths`, at addresses of addresses."""
        real = self._request.in_reals.element.size
        self._parts = words(2 * len(lengths), [n for x in lengths for n in (x, x // real)])
        self._places = words(len(lengths))
        self.record[Site.PARTS] = len(lengths)
        self.record[Site.PART_LENGTHS] = ctypes.addressof(self._parts)
        self.record[Site.PLACES] = ctypes.addressof(self._places)

    def check(self, outcome: int) -> None:
        """Raise the error of an `Outcome`."""
        if outcome == Outcome.GIVEN_UP:
            why = "it was freed, or a signal has ended a wait for its other ranks"
            if self._group.code.take_interrupt():
                why = "Ctrl-C (SIGINT) has ended a wait for its other ranks"
            raise TransferError(f"The group can carry nothing any more: {why}.")
        if outcome == Outcome.DIFFERENT:
            raise DifferentRequestError("another rank has a different request")

    def fail(self) -> None:
        """Raise the error of the failed transfer."""
        useless = self._group.words[Group.USELESS]
        self.check(Outcome.GIVEN_UP if useless else Outcome.DIFFERENT)

    def agreed_in(self, generation: int) -> None:
        """Note that the ranks have agreed on the request in that generation of the ledger."""
        self.record[Site.READY] = generation + 1

    def enter(self, number: int, announcement: Announcement) -> None:
        """Let the machine code serve call site `number`."""
        self.record[Site.ANNOUNCEMENT] = self._group.number_of(announcement)
        self.record[Site.KEY] = announcement.signature.key
        self._group.code.enter(number, self.record)

    def leave(self, number: int) -> None:
        """Undo `enter`."""
        self._group.code.leave(number, self.record)


def _lengths(request: Request) -> list[int]:
    """Return the bytes that each rank gives, or one number if all are equal."""
    size = request.element.size
    if isinstance(request, Allgather):
        return [n * size for n in request.elements(request.rows)]
    return [request.count * size]


def _compared(request: Request) -> int:
    """Return a digest of the request with all ranks' lengths, which an allgather leaves open."""
    return zlib.crc32(repr(_lengths(request)).encode(), zlib.crc32(request.signature.digest))
