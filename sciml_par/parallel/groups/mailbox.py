"""Short messages between ranks next to the collectives: who waits where, who failed, who left.

Messages name a group by its identity, since its name may be used again after it is freed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sciml_par.parallel.requests.request import Announcement

if TYPE_CHECKING:
    from mpi4py import MPI

_LONGEST_PAUSE = 0.01

Identity = tuple[int, int]
"""Of a group: its rank 0 in the world, and the number of groups that this rank made before."""


@dataclass(frozen=True)
class Waiting:
    """The sender has stood in a collective for a while: number `sequence` of the group.

    Sent to one rank, which answers with `Present`.
    """

    group: Identity
    sequence: int
    description: str
    rank: int
    question: int = 0
    is_told: bool = False


@dataclass(frozen=True)
class Present:
    """The ranks that wait in collective `sequence` of the group, as far as the sender knows."""

    group: Identity
    sequence: int
    question: int
    asked: Mapping[str, Sequence[int]]
    are_told: Sequence[int] = ()


@dataclass(frozen=True)
class Missing:
    """The sender waits in collective `sequence` of the group: where is the receiver?"""

    group: Identity
    sequence: int


@dataclass(frozen=True)
class Elsewhere:
    """The answer of rank `rank` to `Missing`.

    `place` is the line of its source, if known. `asked` is its collective `sequence`, empty if
    that is not over. `comparing`: it compares requests now, so it will learn of a mismatch.
    """

    group: Identity
    sequence: int
    rank: int
    place: str
    asked: str = ""
    comparing: bool = False


@dataclass(frozen=True)
class OrderDigest:
    """The digest of the group's collectives and their order up to `number`, as the sender has it.

    `recoveries` counts the mismatches after which the group continued, with a new digest.
    """

    group: Identity
    recoveries: int
    number: int
    digest: int


@dataclass(frozen=True)
class Failed:
    """The sender ends with an error. Equal `key`s are the same error; `text` is printed."""

    key: str
    text: str


@dataclass(frozen=True)
class Interrupted:
    """The sender ends the job because of Ctrl-C in a wait, and reports it."""


@dataclass(frozen=True)
class Left:
    """The sender's program has ended.

    A rank may leave while others are still in a collective in which it has done its part.

    Parameters
    ----------
    begun : {group: (number of collectives begun, digest of their order)}.
    again : repeated for a rank that still asks after the sender, in case a message is lost.
    """

    begun: Mapping[Identity, tuple[int, int]]
    again: bool = False


@dataclass(frozen=True)
class Joined:
    """The sender is in `join`, after it began `begun` of the group's collectives.

    `meeting` counts the earlier meetings of the group there.
    """

    group: Identity
    meeting: int
    begun: int


@dataclass(frozen=True)
class Announced:
    """Collectives of the group, by number, for ranks that have joined."""

    group: Identity
    announcements: Mapping[int, Announcement]


Message = (
    Waiting
    | Present
    | Missing
    | Elsewhere
    | OrderDigest
    | Failed
    | Interrupted
    | Left
    | Joined
    | Announced
)


Question = TypeVar("Question", Waiting, Missing)


class Mailbox:
    """The messages of the other ranks of the world (no call but `settle` waits).

    Attributes
    ----------
    rank : this process's number in the world.
    sent_to : how many messages this rank has sent to each other, [P].
    waiting : by group, the last such message of each rank that has told this one.
    present : the last answer to this rank, by group.
    elsewhere : by group, the last such message of each rank.
    order_digests : the last such message, by group.
    failed, left : the last such message of each rank.
    interrupted : whether another rank reports that it was interrupted.
    joined : the last such message of each rank and group.
    asked : what a group does next: by its identity, and by the number of the collective.
    telling : held by the thread that tells joined ranks of this rank's collectives.
    """

    _TAG = 20997

    def __init__(self, control: MPI.Comm) -> None:
        from mpi4py import MPI

        self._control = control
        self._any_source, self._status = MPI.ANY_SOURCE, MPI.Status
        self.rank: int = control.Get_rank()
        self._others = [r for r in range(control.Get_size()) if r != self.rank]
        self._unsent: list[MPI.Request] = []
        self._lock = threading.Lock()
        self._silent = False
        self.sent_to = np.zeros(control.Get_size(), np.int64)
        self._received = 0
        self._last_word: Left | None = None
        self.waiting: dict[Identity, dict[int, Waiting]] = {}
        self.present: dict[Identity, Present] = {}
        self.elsewhere: dict[Identity, dict[int, Elsewhere]] = {}
        self.order_digests: dict[Identity, OrderDigest] = {}
        self.failed: dict[int, Failed] = {}
        self.interrupted = False
        self.left: dict[int, Left] = {}
        self.joined: dict[tuple[int, Identity], Joined] = {}
        self.asked: dict[Identity, dict[int, Announcement]] = {}
        self.telling = threading.Lock()
        self._questions: list[tuple[int, Waiting | Missing]] = []

    def send(self, message: Message, *, to: Iterable[int] | None = None) -> None:
        """Send to the ranks `to` of the world; to all others by default."""
        if self._silent:
            return
        with self._lock:
            self._unsent = [request for request in self._unsent if not request.Test()]
            for rank in self._others if to is None else to:
                if rank == self.rank:
                    self._take_in(rank, message)
                    continue
                self.sent_to[rank] += 1
                self._unsent.append(self._control.isend(message, dest=rank, tag=self._TAG))

    def leave(self, message: Left) -> None:
        """Tell all ranks, and later those that ask, that this one's program has ended."""
        self._last_word = message
        self.send(message)

    def take(self, kind: type[Question]) -> list[tuple[int, Question]]:
        """Return (rank, message) of the questions of this kind, each of them once."""
        with self._lock:
            taken = [each for each in self._questions if isinstance(each[1], kind)]
            self._questions = [each for each in self._questions if not isinstance(each[1], kind)]
        return taken  # type: ignore[return-value]

    def next_asked(self, group: Identity, number: int) -> Announcement | None:
        """Return the group's collective `number`, if it was announced; drop earlier ones."""
        with self._lock:
            told = self.asked.get(group, {})
            for past in [each for each in told if each < number]:
                del told[past]
            return told.pop(number, None)

    def poll(self) -> None:
        """Receive the messages that have arrived."""
        if self._silent:
            return
        status = self._status()
        with self._lock:
            while self._control.iprobe(source=self._any_source, tag=self._TAG):
                message: Message = self._control.recv(
                    source=self._any_source, tag=self._TAG, status=status
                )
                # What was said again came after all that `settle` waits for had been counted.
                self._received += not (isinstance(message, Left) and message.again)
                self._take_in(status.Get_source(), message)

    def settle(self) -> None:
        """Receive all messages to this rank before MPI ends (collective, once).

        It waits for all ranks. MPI's network layer would warn of messages that nobody receives.
        """
        from mpi4py import MPI

        if self._silent or MPI.Is_finalized():
            return
        expected = np.zeros(1, np.int64)
        counted = self._control.Ireduce_scatter_block(self.sent_to.copy(), expected)
        pause = 0.0
        while not counted.Test() or self._received < expected[0] or self._unsent:
            time.sleep(pause)
            pause = min(1.2 * pause + 1e-5, _LONGEST_PAUSE)
            self.poll()
            # Ranks that wait, and have asked this one, hear again that it has left.
            asking = {rank for rank, _ in (*self.take(Waiting), *self.take(Missing))}
            if asking and self._last_word is not None:
                self.send(replace(self._last_word, again=True), to=asking)
            self._unsent = [request for request in self._unsent if not request.Test()]
        self._silent = True

    def silence(self) -> None:
        """Stop sending and receiving: for a child process, which is a copy of the rank."""
        # The lock may be held by a thread that the child does not have.
        self._silent = True

    def forget_gone(self, groups: Iterable[Identity]) -> None:
        """Drop messages of freed groups, which are not among `groups`.

        All members make their groups in one order. So a missing group is freed if a later one with
        the same rank 0 exists; otherwise it is yet to be made.
        """
        there = set(groups)
        newest: dict[int, int] = {}
        for root, number in there:
            newest[root] = max(number, newest.get(root, -1))

        def gone(group: Identity) -> bool:
            return group not in there and group[1] < newest.get(group[0], -1)

        with self._lock:
            by_group: list[dict[Identity, Any]] = [self.waiting, self.present, self.elsewhere]
            for kept in [*by_group, self.order_digests, self.asked]:
                # Copies: the program's thread changes some of these beside this one.
                for group in [each for each in list(kept) if gone(each)]:
                    kept.pop(group, None)
            for key in [key for key in list(self.joined) if gone(key[1])]:
                del self.joined[key]

    def _take_in(self, sender: int, message: Message) -> None:
        if isinstance(message, Waiting | Missing):
            self._questions.append((sender, message))
        if isinstance(message, Waiting):
            self.waiting.setdefault(message.group, {})[sender] = message
        elif isinstance(message, Present):
            self.present[message.group] = message
        elif isinstance(message, Elsewhere):
            self.elsewhere.setdefault(message.group, {})[sender] = message
        elif isinstance(message, OrderDigest):
            self.order_digests[message.group] = message
        elif isinstance(message, Failed):
            self.failed[sender] = message
        elif isinstance(message, Interrupted):
            self.interrupted = True
        elif isinstance(message, Joined):
            self.joined[sender, message.group] = message
        elif isinstance(message, Announced):
            self.asked.setdefault(message.group, {}).update(message.announcements)
        elif isinstance(message, Left) and (not message.again or sender not in self.left):
            self.left[sender] = message
