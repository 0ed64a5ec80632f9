"""Notify the ranks that have joined (see `join.py`) of the collectives of the others.

One rank only notifies a joined rank of a collective: the lowest that begins it in its program.
Each joined rank said how many it had begun, so all know which rank this is. A rank still tells of
its past after it has joined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Announced, Joined, Mailbox
from sciml_par.parallel.groups.progress import Observer
from sciml_par.parallel.requests.request import Announcement


@dataclass(eq=False)
class JoinedRanks(Observer):
    """Joined ranks that are notified of a group's collectives, up to number `last`."""

    mailbox: Mailbox
    group: Communicator
    ranks: frozenset[int]
    meeting: int
    last: float = math.inf

    @property
    def is_past(self) -> bool:
        """Whether the ranks have met since, so that none has joined any more."""
        return self.meeting != self.group.progress.meetings

    def begun(self, number: int, announcement: Announcement) -> None:
        """Send the joined ranks this rank's collective `number`."""
        if number <= self.last and not self.is_past:
            self.mailbox.send(Announced(self.group.identity, {number: announcement}), to=self.ranks)


def observer_of(group: Communicator) -> JoinedRanks | None:
    """Return the observer that notifies joined ranks of this group, or None."""
    found = (each for each in _observers(group) if not each.is_past)
    return next(found, None)


def _observers(group: Communicator) -> list[JoinedRanks]:
    return [each for each in group.progress.observers if isinstance(each, JoinedRanks)]


def tell_who_joined(group: Communicator, mailbox: Mailbox) -> None:
    """Notify newly joined ranks of the current and all later collectives (called repeatedly)."""
    if not joined_ranks(group, mailbox):
        return
    with mailbox.telling:
        meeting = group.progress.meetings
        joined = joined_ranks(group, mailbox, meeting)
        lower = group.world_ranks[: group.rank]
        observer = observer_of(group)
        known = frozenset() if observer is None else observer.ranks
        if not joined.keys() >= set(lower) or joined.keys() <= known:
            return  # a lower rank tells of all, or nobody is new
        told_by_lower = max((joined[rank].begun for rank in lower), default=0)
        mine = mailbox.joined.get((mailbox.rank, group.identity))
        last = math.inf if mine is None or mine.meeting != meeting else mine.begun
        for past in [each for each in _observers(group) if each.is_past]:
            group.progress.forget(past)
        # First the observer, then the past: what begins in between is told twice, not left out.
        group.progress.observe(JoinedRanks(mailbox, group, frozenset(joined), meeting, last))
        group.progress.forget(observer)
        history = list(group.progress.history)
        for rank in joined.keys() - known:
            first = max(joined[rank].begun, told_by_lower)
            announcements = {
                number: announcement for number, announcement in history if first < number <= last
            }
            if announcements:
                mailbox.send(Announced(group.identity, announcements), to=[rank])


def join_in(group: Communicator, mailbox: Mailbox) -> None:
    """Tell all ranks of the group that this one has joined."""
    mine = Joined(group.identity, group.progress.meetings, group.progress.sequence)
    with mailbox.telling:
        mailbox.joined[mailbox.rank, group.identity] = mine
        observer = observer_of(group)
        if observer is not None:
            observer.last = mine.begun
    mailbox.send(mine, to=[rank for rank in group.world_ranks if rank != mailbox.rank])


def end_meeting(group: Communicator, mailbox: Mailbox) -> None:
    """End the stay in `join` of all ranks, after which each continues its program."""
    with mailbox.telling:
        group.progress.forget(observer_of(group))
        group.progress.meetings += 1
        mailbox.asked.pop(group.identity, None)


def joined_ranks(
    group: Communicator, mailbox: Mailbox, meeting: int | None = None
) -> dict[int, Joined]:
    """Return the other ranks that have joined since the `meeting`, by rank in the world."""
    meeting = group.progress.meetings if meeting is None else meeting
    others = (rank for rank in group.world_ranks if rank != mailbox.rank)
    found = ((rank, mailbox.joined.get((rank, group.identity))) for rank in others)
    return {rank: each for rank, each in found if each is not None and each.meeting == meeting}
