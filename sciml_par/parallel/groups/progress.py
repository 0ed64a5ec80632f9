"""How far this rank is in a group's collectives: their order, what is in progress, what is agreed.

Every collective of a group begins and ends here. The watchdog's thread reads the numbers, and
observers are told: the timeline's recorder, and the ranks that have joined.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

from sciml_par.errors import CollectiveMismatchError, InputError
from sciml_par.parallel.groups.ledger import Ledger
from sciml_par.parallel.requests.announcement import Announcement, Kind
from sciml_par.parallel.requests.signature import KEY_MASK, Signature

if TYPE_CHECKING:
    from mpi4py import MPI

_HISTORY = 1024

_DIGEST_STEP, _DIGESTS_KEPT = 16, 8192
"""Every how many collectives the digest of their order is kept for the watchdogs to compare, and
how many of them: more than ranks do in a second."""


class Group(Protocol):
    """What others need to know of a group of ranks; `Communicator` has more.

    Attributes
    ----------
    name : how messages call the group.
    rank, size : this process's number in the group, 0 ≤ rank < size.
    identity : no other group of the job has had or will have the same.
    world_ranks : the members' numbers in the world, [P].
    control : the MPI communicator for agreements.
    progress : how far this rank is in the group's collectives.
    mismatch_error : what is raised where the ranks do not ask for the same.
    """

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
    """Is told of the collectives of one group (on the thread that calls them)."""

    def begun(self, number: int, announcement: Announcement) -> None:
        """This rank begins the group's collective `number`."""

    def ended(
        self, number: int, signature: Signature, size: int, compared: bool, enqueued: bool
    ) -> None:
        """It is over, without an error.

        Parameters
        ----------
        enqueued : whether a GPU has been given the work, and it may not be done.
        """

    def for_new_group(self, group: Group) -> Observer | None:
        """What observes a group that is made later; None if nothing does."""


class Progress:
    """The collectives of one group, as this rank has come through them.

    Attributes
    ----------
    sequence : how many collectives this rank has begun.
    enqueued : which of them was the last that a GPU was given.
    in_progress : what this rank waits for, or None.
    comparing : whether it is still comparing that with the others.
    order_digest : a number that all collectives so far, in their order, have made: it differs where
        the signatures of two ranks, or their order, have differed.
    recoveries : how often ranks did not ask for the same, were told so, and could go on.
    ledger : the signatures that the ranks have agreed on.
    history : the last collectives that this rank has begun, with their numbers. Ranks that join
        late hear of what they have missed.
    meetings : how often the ranks have met in `join`, or after a mismatch.
    observers : what is told of each collective.
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
        """Tell `observer` of each collective from now on."""
        with self._changing_observers:
            self._set_observers((*self.observers, observer))

    def forget(self, observer: Observer | None) -> None:
        """Tell `observer` no more."""
        with self._changing_observers:
            self._set_observers(tuple(each for each in self.observers if each is not observer))

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers

    @property
    def is_told_of_mismatch(self) -> bool:
        """Whether who waits learns that the ranks differ, once all of them have come."""
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
            for observer in self.observers:
                observer.begun(number, announcement)

    def end(self) -> None:
        """Note that the collective which this rank has begun is over, or has failed."""
        self.in_progress = None
        self._give_turn()

    def tell_ended(
        self,
        signature: Signature,
        size: int = -1,
        compared: bool = True,
        enqueued: bool = False,
    ) -> None:
        """Tell the observers that the last collective has ended without an error."""
        for observer in self.observers:
            observer.ended(self.sequence, signature, size, compared, enqueued)

    @contextlib.contextmanager
    def exchange(self, signature: Signature, kind: Kind = Kind.AGREEMENT) -> Iterator[Signature]:
        """Let the watchdog, and ranks that have joined, see an exchange that is no tensor's."""
        self.begin(Announcement(kind, signature))
        try:
            yield signature
        finally:
            self.end()
        if self.observers:
            self.tell_ended(signature)

    def recover(self, sequence: int) -> None:
        """Go on after a mismatch of which all ranks were told, all at one number.

        All are here: none is ahead of another any more, and who had joined has been told as well.
        """
        self.sequence = sequence
        self.order_digest = 0
        self._digests = [None] * _DIGESTS_KEPT
        self.recoveries += 1
        self.history.clear()
        self.meetings += 1

    def visit(self) -> None:
        """Let Python have a look at the next collective, wherever it is (for the watchdog).

        It handles signals there. Here every collective goes by Python anyway.
        """

    def refuse_all(self, refuse: Callable[..., NoReturn]) -> None:
        """Begin nothing any more: `refuse` is called in its place."""
        self._set_observers(())
        # Every collective begins there, so those of ranks pay nothing for the test.
        self.begin = refuse  # type: ignore[method-assign]

    def resume(self, announcement: Announcement) -> None:
        """Go on with a collective that machine code has begun (see `NativeProgress`)."""
        raise NotImplementedError

    def newest_digest(self) -> tuple[int, int] | None:
        """Return the number of a collective not long ago, and the order's digest after it."""
        return self._digests[_place(self.sequence)]

    def digest_after(self, number: int) -> int | None:
        """Return the digest after the collective `number`; None if it is not kept any more."""
        kept = self._digests[_place(number)]
        return None if kept is None or kept[0] != number else kept[1]

    def _disorder(self, signature: Signature) -> InputError:
        """Return the error of two collectives at once, which all later ones get, too.

        Which of the two the other ranks begin first is not known, so nothing that this group does
        from here on can be trusted.
        """
        if self._disordered is None:
            self._give_turn = lambda: None
            self._disordered = (
                f"{self._where} was asked for {signature} while "
                f"{self.in_progress or 'another collective'} was in progress in another thread. "
                f"The order in which threads call collectives is not the same on all ranks. Call "
                f"them from one thread (Dataset.map without num_parallel_calls, no prefetch behind "
                f"it), or give each thread a group of its own, made by Communicator.split(0)."
            )
        return InputError(self._disordered)


def _place(number: int) -> int:
    """Where the digest after a collective is kept."""
    return number // _DIGEST_STEP % _DIGESTS_KEPT
