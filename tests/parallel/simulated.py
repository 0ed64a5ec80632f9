"""Made-up ranks: real mailboxes and watchdogs in one process, on a network and a clock of ours."""

from __future__ import annotations

import itertools
from collections import deque
from types import SimpleNamespace

import sciml_par.parallel as sp
from sciml_par.parallel.groups.mailbox import Left, Mailbox
from sciml_par.parallel.groups.progress import Progress
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.supervision.watchdog import Patience, Watchdog

MINE = Signature("allreduce", "float32", (2,))
OTHER = Signature("barrier")
WORLD = (0, 0)
_SENT = SimpleNamespace(Test=lambda: True)


class Ended(BaseException):
    """The job would have ended with this message. No error that a thread could survive."""


class Control:
    """One rank's end of the network, by the names that `Mailbox` calls."""

    def __init__(self, queues: list[deque], rank: int) -> None:
        self.queues = queues
        self.rank = rank

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return len(self.queues)

    def isend(self, message, dest, tag):
        assert dest != self.rank
        self.queues[dest].append((self.rank, message))
        return _SENT

    def iprobe(self, source, tag):
        return bool(self.queues[self.rank])

    def recv(self, source, tag, status):
        sender, message = self.queues[self.rank].popleft()
        status.Set_source(sender)
        return message


class Group(SimpleNamespace):
    """A made-up communicator without GPUs."""

    __hash__ = object.__hash__
    nccl_transport = None
    in_progress = sp.Communicator.in_progress


def make_group(rank: int, members, *, name: str = "world", identity=WORLD) -> Group:
    return Group(
        name=name,
        identity=identity,
        rank=rank,
        size=len(members),
        world_ranks=list(members),
        progress=Progress(f"Rank {rank} of «{name}»"),
    )


class Job:
    """Ranks whose watchdogs look in turn, four times a second.

    Attributes
    ----------
    ended : (rank, message) of the first that would have ended the job, and the time of it.
    """

    def __init__(self, size: int, **patience) -> None:
        self.queues: list[deque] = [deque() for _ in range(size)]
        self.mailboxes = [Mailbox(Control(self.queues, rank)) for rank in range(size)]
        self.groups = [[make_group(rank, range(size))] for rank in range(size)]
        self.now = 0.0
        self.silent: set[int] = set()
        self.ended: tuple[int, str] | None = None
        self.dogs = [
            Watchdog(
                self.mailboxes[rank],
                lambda rank=rank: self.groups[rank],
                lambda message, rank=rank: self._end(rank, message),
                Patience(**patience),
                clock=lambda: self.now,
            )
            for rank in range(size)
        ]

    def _end(self, rank, message):
        self.ended = (rank, message)
        raise Ended(message)

    def wait(self, rank, signature=MINE, sequence=5, group=0, comparing=False):
        """The rank stands in a collective."""
        self.groups[rank][group].progress.comparing = comparing
        self.groups[rank][group].progress.sequence = sequence
        self.groups[rank][group].progress._current = signature

    def leave(self, rank):
        """The rank ends its program after the collectives that it has begun."""
        self.silent.add(rank)
        begun = {
            g.identity: (g.progress.sequence, g.progress.order_digest) for g in self.groups[rank]
        }
        self.mailboxes[rank].send(Left(begun))

    def run(self, seconds: float, *, step: float = 0.25) -> Job:
        """Let time go by, or the job end."""
        steps = range(round(seconds / step))
        for _ in itertools.takewhile(lambda _: self.ended is None, steps):
            self.now += step
            for rank, dog in enumerate(self.dogs):
                if rank not in self.silent:
                    try:
                        dog.look()
                    except Ended:
                        return self
        return self

    @property
    def sent(self) -> int:
        return int(sum(mailbox.sent_to.sum() for mailbox in self.mailboxes))
