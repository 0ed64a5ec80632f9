"""The progress of a rank in a group's collectives: their order, the current one, the ledger.

Every collective of a group begins and ends here, or in machine code, which reads and writes the
same words of memory (`layout.Group`). The watchdog's thread reads them. Observers are notified: the
timeline's recorder, and the ranks that have joined.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from sciml_par.errors import InputError
from sciml_par.parallel.native.host_group import HostGroup
from sciml_par.parallel.native.layout import DIGEST_STEP, DIGESTS_KEPT, HISTORY_KEPT
from sciml_par.parallel.native.layout import Group as Word
from sciml_par.parallel.requests.request import Announcement, Kind
from sciml_par.parallel.requests.signature import KEY_MASK, Signature

MOST_SIGNATURES = 1 << 16
"""How many signatures are remembered. A program that names its collectives by the step would
otherwise fill the memory."""


class Observer:
    """Is notified of the collectives of one group (on the thread that calls them)."""

    def begun(self, number: int, announcement: Announcement) -> None:
        """Note the start of a collective."""

    def ended(
        self, number: int, signature: Signature, size: int, compared: bool, enqueued: bool
    ) -> None:
        """Note the end of a collective without an error; if `enqueued`, a GPU may not be done."""

    def for_new_group(self, group: Any) -> Observer | None:
        """Return the observer of a `Communicator` that is made later, or None."""
        return None


def _word(place: int) -> Any:
    """Return an attribute that is a word of the group's record."""

    def write(progress: Progress, number: int) -> None:
        progress._words[place] = number

    return property(lambda progress: progress._words[place], write)


class Progress:
    """This rank's progress in the collectives of one group.

    Parameters
    ----------
    where : the rank and the group, for messages.
    host : the group in shared memory, whose collectives machine code begins as well; or None.

    Attributes
    ----------
    sequence : the number of collectives that this rank has begun.
    enqueued : the number of the last one that a GPU was given.
    in_progress : the signature of the current collective, or None.
    comparing : whether the ranks still compare it.
    order_digest : a digest of all collectives so far, in their order.
    recoveries : the number of mismatches after which the group continued.
    ledger : the signatures on which the ranks have agreed.
    history : the last collectives that this rank has begun, with their numbers, for messages and
        for ranks that join late.
    meetings : the number of meetings of all ranks, in `join` or after a mismatch.
    observers : notified of each collective.
    """

    sequence = _word(Word.SEQUENCE)
    order_digest = _word(Word.DIGEST)

    def __init__(self, where: str, host: HostGroup | None = None) -> None:
        self._where = where
        self._host = host
        self._words: Any = [0] * Word.LENGTH if host is None else host.words
        self._turn = threading.Lock()
        self._begin: Callable[[int], int] = self._begin_here
        self._end: Callable[[], object] = self._turn.release
        if host is not None:
            self._begin = partial(host.code.begin, host.address, 0)
            self._end = partial(host.code.end, host.address)
        self.enqueued = 0
        self._current: Signature | None = None
        self.comparing = False
        self.recoveries = 0
        self.ledger = Ledger(self._words)
        self._past: deque[tuple[int, Announcement]] = deque(maxlen=HISTORY_KEPT)
        self.meetings = 0
        self.observers: tuple[Observer, ...] = ()
        self._changing_observers = threading.Lock()
        self._disordered: str | None = None

    @property
    def in_progress(self) -> Signature | None:
        current, begun = self._current, self._words[Word.PENDING]
        if current is None and self._host is not None and begun:
            return self._host.announcement(begun).signature
        return current

    @property
    def history(self) -> deque[tuple[int, Announcement]]:
        if self._host is None:
            return self._past
        last, found = self.sequence, dict(self._past.copy())
        for number in range(max(1, last - HISTORY_KEPT + 1), last + 1):
            place = Word.HISTORY + 2 * (number & (HISTORY_KEPT - 1))
            announced = self._words[place + 1]
            if self._words[place] == number and announced:
                found[number] = self._host.announcement(announced)
        return deque(sorted(found.items()), maxlen=HISTORY_KEPT)

    def observe(self, observer: Observer) -> None:
        """Notify `observer` of each collective from now on."""
        with self._changing_observers:
            self._set_observers((*self.observers, observer))

    def forget(self, observer: Observer | None) -> None:
        """Stop notifying `observer`."""
        with self._changing_observers:
            self._set_observers(tuple(each for each in self.observers if each is not observer))

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers
        self._words[Word.OBSERVED] = len(observers)
        if self._host is not None:
            # What the machine code begins from here on is told, and what it has begun is in
            # `history`.
            self._host.code.settle()

    @property
    def is_told_of_mismatch(self) -> bool:
        """Whether a waiting rank gets the error of a mismatch, once all ranks have come.

        It does while it compares, or waits in shared memory (`handler.meet`).
        """
        if self.comparing or self._host is None:
            return self.comparing
        begun = self._words[Word.PENDING]
        past = self._past.copy()
        if not begun and (self._current is None or not past):
            return False  # what stands still is a GPU's, or is over
        announcement = self._host.announcement(begun) if begun else past[-1][1]
        by_gpu = announcement.signature.transport == "NCCL"
        request = announcement.request
        return request is not None and not by_gpu and self._host.carries(request)

    def begin(self, announcement: Announcement) -> None:
        """Note that this rank begins its next collective; `end` must follow."""
        number = self._begin(announcement.signature.key)
        if not number:
            raise self._disorder(announcement.signature)
        # The watchdog reads both: a number that stands still with a signature in progress is a
        # stall.
        self._current = announcement.signature
        self._past.append((number, announcement))
        if self.observers:
            self._tell_begun(number, announcement)

    def _begin_here(self, key: int) -> int:
        """Do as `handler.begin`."""
        if not self._turn.acquire(blocking=False):
            return 0
        number = self.sequence = self.sequence + 1
        # Odd, so that no difference is lost; and all numbers are those that Python is fast at.
        digest = self.order_digest = (3 * self.order_digest + key) & KEY_MASK
        if not number % DIGEST_STEP:
            place = _place(number)
            self._words[place : place + 2] = [number, digest]
        return number

    def resume(self, announcement: Announcement) -> None:
        """Continue a collective that machine code has begun."""
        self._tell_begun(self.sequence, announcement)

    def _tell_begun(self, number: int, announcement: Announcement) -> None:
        for observer in self.observers:
            observer.begun(number, announcement)

    def end(self) -> None:
        """Note that the current collective is over or has failed."""
        self._current = None
        self._end()

    def tell_ended(
        self, signature: Signature, size: int = -1, compared: bool = True, enqueued: bool = False
    ) -> None:
        """Notify the observers of the end of the last collective without an error."""
        for observer in self.observers:
            observer.ended(self.sequence, signature, size, compared, enqueued)

    @contextlib.contextmanager
    def exchange(self, signature: Signature, kind: Kind = Kind.AGREEMENT) -> Iterator[Signature]:
        """Show an exchange without tensors to the watchdog and to joined ranks."""
        self.begin(Announcement(kind, signature))
        try:
            yield signature
        finally:
            self.end()
        if self.observers:
            self.tell_ended(signature)

    def recover(self, sequence: int) -> None:
        """Continue after a mismatch that all ranks have noticed, all with one number.

        No rank is ahead of another any more, and none is in `join`.
        """
        self._past.clear()
        self._words[Word.HISTORY : Word.LENGTH] = [0] * (Word.LENGTH - Word.HISTORY)
        self.sequence = sequence
        self.order_digest = 0
        self.recoveries += 1
        self.meetings += 1

    def visit(self) -> None:
        """Let Python handle signals at the next collective, which machine code would begin."""
        self._words[Word.VISIT] = 1

    def refuse_all(self, refuse: Callable[..., NoReturn]) -> None:
        """Call `refuse` at the begin of every further collective."""
        self._set_observers(())
        # Every collective begins there, so those of ranks pay nothing for the test.
        self.begin = refuse  # type: ignore[method-assign]
        if self._host is not None:
            self._host.refuse()

    def newest_digest(self) -> tuple[int, int] | None:
        """Return the number of a recent collective, and the order's digest after it."""
        number = self.sequence // DIGEST_STEP * DIGEST_STEP
        digest = self.digest_after(number)
        return None if digest is None else (number, digest)

    def digest_after(self, number: int) -> int | None:
        """Return the digest after the collective `number`; None if it is not kept any more."""
        place = _place(number)
        # The machine code writes the digest before its number.
        if number == 0 or self._words[place] != number:
            return None
        digest: int = self._words[place + 1]
        return digest

    def _disorder(self, signature: Signature) -> InputError:
        """Return the error of two collectives at once, which all later ones get as well."""
        if self._disordered is None:
            if self._host is None:  # as in machine code, nobody gets the turn any more
                self._end = lambda: None
            self._disordered = (
                f"{self._where} was asked for {signature} while "
                f"{self.in_progress or 'another collective'} was in progress in another thread. "
                f"The order in which threads call collectives is not the same on all ranks. Call "
                f"them from one thread (Dataset.map without num_parallel_calls, no prefetch behind "
                f"it), or give each thread a separate group, made by Communicator.split(0)."
            )
        return InputError(self._disordered)


def _place(number: int) -> int:
    """Return the place of (number, digest after it) of a collective."""
    return Word.DIGESTS + 2 * (number // DIGEST_STEP & (DIGESTS_KEPT - 1))


class Ledger:
    """The signatures that the ranks of one group have agreed on, wherever in the program.

    A comparison each time would double the cost of a short collective. A rank that traces a
    function again, alone, asks for nothing new and waits for nobody.

    Parameters
    ----------
    words : the group's record, which machine code reads.
    """

    __slots__ = ("_digests", "_words", "generation")

    def __init__(self, words: Any) -> None:
        self._words = words
        self._digests: set[bytes] = set()
        self.generation = 0

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        """Remember a signature on which all ranks have just agreed."""
        if len(self._digests) >= MOST_SIGNATURES:
            self.clear()
        self._digests.add(digest)

    def clear(self) -> None:
        """Forget all agreements; to be done at the same collective on all ranks."""
        self._digests.clear()
        self.generation += 1
        self._words[Word.GENERATION] = self.generation + 1
