"""The progress of a rank in a group's collectives: their order, the current one, the ledger.

Every collective of a group begins and ends here. The watchdog's thread reads the numbers.
Observers are notified: the timeline's recorder, and the ranks that have joined.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.groups.ledger import Ledger
from sciml_par.parallel.requests.request import Announcement, Kind
from sciml_par.parallel.requests.signature import KEY_MASK, Signature

if TYPE_CHECKING:
    from mpi4py import MPI

_HISTORY = 1024

_DIGEST_STEP, _DIGESTS_KEPT = 16, 8192
"""The watchdogs compare the digest of the order at every 16th collective. The last ones are kept,
more than ranks do in a second."""


class Group(Protocol):
    """The part of `Communicator` that the supervision needs."""

    name: str
    rank: int
    size: int
    identity: tuple[int, int]
    world_ranks: list[int]
    control: MPI.Comm
    progress: Progress
    mismatch_error: type[CollectiveMismatchError]

    def __hash__(self) -> int: ...


class Observer(Protocol):
    """Is notified of the collectives of one group (on the thread that calls them)."""

    def begun(self, number: int, announcement: Announcement) -> None: ...

    def ended(
        self, number: int, signature: Signature, size: int, compared: bool, enqueued: bool
    ) -> None:
        """Note the end of a collective without an error; if `enqueued`, a GPU may not be done."""

    def for_new_group(self, group: Group) -> Observer | None:
        """Return the observer of a group that is made later, or None."""


class Progress:
    """This rank's progress in the collectives of one group.

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

    def __init__(self, where: str) -> None:
        self._where = where
        self.sequence = 0
        self.enqueued = 0
        self.in_progress: Signature | None = None
        self.comparing = False
        self.order_digest = 0
        self._digests: list[tuple[int, int] | None] = [None] * _DIGESTS_KEPT
        self.recoveries = 0
        self.ledger = Ledger()
        self.history: deque[tuple[int, Announcement]] = deque(maxlen=_HISTORY)
        self.meetings = 0
        self.observers: tuple[Observer, ...] = ()
        self._changing_observers = threading.Lock()
        turn = threading.Lock()
        self._take_turn: Callable[[bool], bool] = turn.acquire
        self._give_turn: Callable[[], None] = turn.release
        self._disordered: str | None = None

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

    @property
    def is_told_of_mismatch(self) -> bool:
        """Whether a waiting rank gets the error of a mismatch, once all ranks have come."""
        return self.comparing

    def begin(self, announcement: Announcement) -> None:
        """Note that this rank begins its next collective; `end` must follow."""
        if not self._take_turn(False):
            raise self._disorder(announcement.signature)
        # The watchdog reads these two: a number that stands still with a signature in progress is
        # a stall.
        number = self.sequence = self.sequence + 1
        self.in_progress = announcement.signature
        # Odd, so that no difference is lost; and all numbers are those that Python is fast at.
        self.order_digest = (3 * self.order_digest + announcement.key) & KEY_MASK
        if not number % _DIGEST_STEP:
            self._digests[_place(number)] = number, self.order_digest
        self.history.append((number, announcement))
        if self.observers:
            self._tell_begun(number, announcement)

    def _tell_begun(self, number: int, announcement: Announcement) -> None:
        for observer in self.observers:
            observer.begun(number, announcement)

    def end(self) -> None:
        """Note that the current collective is over or has failed."""
        self.in_progress = None
        self._give_turn()

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
        self.sequence = sequence
        self.order_digest = 0
        self._digests = [None] * _DIGESTS_KEPT
        self.recoveries += 1
        self.history.clear()
        self.meetings += 1

    def visit(self) -> None:
        """Let Python handle signals at the next collective (here, at each anyway)."""

    def refuse_all(self, refuse: Callable[..., NoReturn]) -> None:
        """Call `refuse` at the begin of every further collective."""
        self._set_observers(())
        # Every collective begins there, so those of ranks pay nothing for the test.
        self.begin = refuse  # type: ignore[method-assign]

    def resume(self, announcement: Announcement) -> None:
        """Continue a collective that machine code has begun (see `NativeProgress`)."""
        raise NotImplementedError

    def newest_digest(self) -> tuple[int, int] | None:
        """Return the number of a recent collective, and the order's digest after it."""
        return self._digests[_place(self.sequence)]

    def digest_after(self, number: int) -> int | None:
        """Return the digest after the collective `number`; None if it is not kept any more."""
        kept = self._digests[_place(number)]
        return None if kept is None or kept[0] != number else kept[1]

    def _disorder(self, signature: Signature) -> InputError:
        """Return the error of two collectives at once, which all later ones get as well."""
        if self._disordered is None:
            self._give_turn = lambda: None
            self._disordered = (
                f"{self._where} was asked for {signature} while "
                f"{self.in_progress or 'another collective'} was in progress in another thread. "
                f"The order in which threads call collectives is not the same on all ranks. Call "
                f"them from one thread (Dataset.map without num_parallel_calls, no prefetch behind "
                f"it), or give each thread a separate group, made by Communicator.split(0)."
            )
        return InputError(self._disordered)


def _place(number: int) -> int:
    """Return the place of the digest after a collective."""
    return number // _DIGEST_STEP % _DIGESTS_KEPT
