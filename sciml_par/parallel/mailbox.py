"""Short messages between ranks beside the collectives: who waits where, who failed, who left."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


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


Message = Waiting | Failed | Left


class Mailbox:
    """What the other ranks of the world have said (local; never waits for anyone).

    Attributes
    ----------
    waiting, failed, left : the last such message of each rank.
    """

    _TAG = 20997

    def __init__(self, control: MPI.Comm) -> None:
        from mpi4py import MPI

        self._control = control
        self._any_source = MPI.ANY_SOURCE
        self._others = [r for r in range(control.Get_size()) if r != control.Get_rank()]
        self._unsent: list[MPI.Request] = []
        self._lock = threading.Lock()
        self.waiting: dict[int, Waiting] = {}
        self.failed: dict[int, Failed] = {}
        self.left: dict[int, Left] = {}

    def send(self, message: Message) -> None:
        """Tell every other rank."""
        with self._lock:
            self._unsent = [request for request in self._unsent if not request.Test()]
            self._unsent += [
                self._control.isend(message, dest=rank, tag=self._TAG) for rank in self._others
            ]

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
        else:
            self.left[sender] = message
