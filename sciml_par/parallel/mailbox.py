"""Short messages between ranks beside the collectives: who waits where, who failed, who left."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sciml_par.parallel.ask import Ask

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.recorder import EventKind, Row


@dataclass(frozen=True)
class Waiting:
    """The sender has stood in a collective for a while: number `sequence` of the group `group`."""

    group: str
    sequence: int
    description: str


@dataclass(frozen=True)
class Failed:
    """The sender ends with an error. Equal `key`s are the same error; `text` is what to print."""

    key: str
    text: str


@dataclass(frozen=True)
class Left:
    """The sender's program has ended, after it began so many collectives in each group.

    A rank may leave while others are still in a collective in which it has done its part.
    """

    begun: Mapping[str, int]


@dataclass(frozen=True)
class Events:
    """What the sender has done since its last such message, for the timeline.

    Parameters
    ----------
    timeline : the number of the timeline that it is for.
    kinds : {number: kind of event} of the numbers that come up for the first time.
    rows : the events, as `Recorder.drain` gives them.
    dropped : how many more there were, of which nothing is kept.
    last : whether nothing more will come.
    """

    timeline: int
    kinds: Mapping[int, EventKind]
    rows: Sequence[Row]
    dropped: int
    last: bool


@dataclass(frozen=True)
class Joined:
    """The sender is in `join`, after it began so many of the group's collectives.

    `meeting` counts how often the group has met there before.
    """

    group: str
    meeting: int
    begun: int


@dataclass(frozen=True)
class Asked:
    """The sender's collective `number` of the group, for those who have joined."""

    group: str
    number: int
    ask: Ask


Message = Waiting | Failed | Left | Events | Joined | Asked


class Mailbox:
    """What the other ranks of the world have said (local; never waits for anyone).

    Attributes
    ----------
    waiting, failed, left : the last such message of each rank.
    joined : the last such message of each rank and group.
    asked : what a group does next: by its name, and by the number of the collective.
    events : (rank, message) of all that have come and nobody has taken out.
    """

    _TAG = 20997

    def __init__(self, control: MPI.Comm) -> None:
        from mpi4py import MPI

        self._control = control
        self._any_source = MPI.ANY_SOURCE
        self._others = [r for r in range(control.Get_size()) if r != control.Get_rank()]
        self._unsent: list[MPI.Request] = []
        self._unsent_events: list[MPI.Request] = []
        self._lock = threading.Lock()
        self.waiting: dict[int, Waiting] = {}
        self.failed: dict[int, Failed] = {}
        self.left: dict[int, Left] = {}
        self.events: deque[tuple[int, Events]] = deque()
        self.joined: dict[tuple[int, str], Joined] = {}
        self.asked: dict[str, dict[int, Ask]] = {}

    def send(self, message: Message, *, to: Iterable[int] | None = None) -> None:
        """Tell the ranks `to` of the world; every other one by default."""
        with self._lock:
            self._unsent = [request for request in self._unsent if not request.Test()]
            self._unsent += [
                self._control.isend(message, dest=rank, tag=self._TAG)
                for rank in (self._others if to is None else to)
            ]

    def ship(self, events: Events, rank: int) -> None:
        """Give one rank a part of the timeline."""
        with self._lock:
            self._unsent_events.append(self._control.isend(events, dest=rank, tag=self._TAG))

    def shipping(self) -> int:
        """How many parts of the timeline are still on their way."""
        with self._lock:
            self._unsent_events = [each for each in self._unsent_events if not each.Test()]
            return len(self._unsent_events)

    def next_asked(self, group: str, number: int) -> Ask | None:
        """What the group's collective `number` is, if somebody has said so; earlier ones go."""
        with self._lock:
            told = self.asked.get(group, {})
            for past in [each for each in told if each < number]:
                del told[past]
            return told.pop(number, None)

    def poll(self) -> None:
        """Take in what has arrived."""
        with self._lock:
            while self._control.iprobe(source=self._any_source, tag=self._TAG):
                self._take_one()

    def _take_one(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        message: Message = self._control.recv(source=self._any_source, tag=self._TAG, status=status)
        sender = status.Get_source()
        if isinstance(message, Waiting):
            self.waiting[sender] = message
        elif isinstance(message, Failed):
            self.failed[sender] = message
        elif isinstance(message, Events):
            self.events.append((sender, message))
        elif isinstance(message, Joined):
            self.joined[sender, message.group] = message
        elif isinstance(message, Asked):
            self.asked.setdefault(message.group, {})[message.number] = message.ask
        else:
            self.left[sender] = message
