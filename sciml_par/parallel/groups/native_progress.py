"""The progress of a rank in the collectives of a group that machine code serves as well.

The attributes of `Progress` are words of memory here, which the machine code reads and writes.
Collectives that it has begun are known by the numbers of their announcements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from sciml_par.parallel.groups.ledger import Ledger
from sciml_par.parallel.groups.progress import Observer, Progress
from sciml_par.parallel.native.host_group import HostGroup
from sciml_par.parallel.native.layout import DIGEST_STEP, DIGESTS_KEPT, HISTORY_KEPT, Group
from sciml_par.parallel.requests.request import Announcement
from sciml_par.parallel.requests.signature import Signature


def _word(place: int) -> Any:
    """Return an attribute that is a word of the group's record."""

    def write(progress: Any, number: int) -> None:
        progress._words[place] = number

    return property(lambda progress: progress._words[place], write)


class NativeProgress(Progress):
    """`Progress` in memory words."""

    def __init__(self, where: str, host: HostGroup) -> None:
        self._host = host
        self._words = host.words
        self._address = host.address
        self._begin, self._end = host.code.begin, host.code.end
        self._in_progress: Signature | None = None
        self._past: deque[tuple[int, Announcement]] = deque()
        super().__init__(where)
        self.ledger = Ledger(emptied=self._tell_generation)

    def _tell_generation(self, generation: int) -> None:
        self._words[Group.GENERATION] = generation + 1

    sequence = _word(Group.SEQUENCE)
    order_digest = _word(Group.DIGEST)

    @property
    def in_progress(self) -> Signature | None:
        if self._in_progress is not None:
            return self._in_progress
        number = self._words[Group.PENDING]
        return self._host.announcement(number).signature if number else None

    @in_progress.setter
    def in_progress(self, signature: Signature | None) -> None:
        self._in_progress = signature

    @property
    def is_told_of_mismatch(self) -> bool:
        """Whether it compares, or waits in shared memory (`handler.announce_comparison`)."""
        if self.comparing:
            return True
        begun = self._words[Group.PENDING]
        past = self._past.copy()
        if not begun and (self._in_progress is None or not past):
            return False  # what stands still is a GPU's, or is over
        announcement = self._host.announcement(begun) if begun else past[-1][1]
        by_gpu = announcement.signature.transport == "NCCL"
        request = announcement.request
        return request is not None and not by_gpu and self._host.carries(request)

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers
        self._words[Group.OBSERVED] = len(observers)
        # What the machine code begins from here on is told, and what it has begun is in `history`.
        self._host.code.settle()

    @property
    def history(self) -> deque[tuple[int, Announcement]]:
        """The last collectives, begun by Python or by machine code."""
        last = self._words[Group.SEQUENCE]
        found = dict(self._past.copy())
        for number in range(max(1, last - HISTORY_KEPT + 1), last + 1):
            place = Group.HISTORY + 2 * (number & (HISTORY_KEPT - 1))
            announced = self._words[place + 1]
            if self._words[place] == number and announced:
                found[number] = self._host.announcement(announced)
        return deque(sorted(found.items()), maxlen=HISTORY_KEPT)

    @history.setter
    def history(self, history: deque[tuple[int, Announcement]]) -> None:
        self._past = history

    def begin(self, announcement: Announcement) -> None:
        number = self._begin(self._address, 0, announcement.key)
        if not number:
            raise self._disorder(announcement.signature)
        self._in_progress = announcement.signature
        self._past.append((number, announcement))
        if self.observers:
            self._tell_begun(number, announcement)

    def resume(self, announcement: Announcement) -> None:
        self._tell_begun(self._words[Group.SEQUENCE], announcement)

    def end(self) -> None:
        self._in_progress = None
        self._end(self._address)

    def visit(self) -> None:
        self._words[Group.VISIT] = 1

    def refuse_all(self, refuse: Callable[..., NoReturn]) -> None:
        super().refuse_all(refuse)
        self._host.refuse()

    def recover(self, sequence: int) -> None:
        self._past.clear()
        for first, length in ((Group.HISTORY, HISTORY_KEPT), (Group.DIGESTS, DIGESTS_KEPT)):
            self._words[first : first + 2 * length] = [0] * (2 * length)
        super().recover(sequence)

    def newest_digest(self) -> tuple[int, int] | None:
        number = self._words[Group.SEQUENCE] // DIGEST_STEP * DIGEST_STEP
        digest = self.digest_after(number)
        return None if digest is None else (number, digest)

    def digest_after(self, number: int) -> int | None:
        place = Group.DIGESTS + 2 * (number // DIGEST_STEP & (DIGESTS_KEPT - 1))
        # The machine code writes the digest before its number.
        if number == 0 or self._words[place] != number:
            return None
        return self._words[place + 1]
