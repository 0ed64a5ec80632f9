"""Ranks that have joined (see `join.py`), as those see them that have not."""

from __future__ import annotations

from sciml_par.parallel.ask import Ask
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.mailbox import Asked, Joined, Mailbox


class Audience:
    """Those who have joined, to be told of every collective of a group.

    Parameters
    ----------
    ranks : their numbers in the world.
    """

    def __init__(self, mailbox: Mailbox, group: Communicator, ranks: frozenset[int]) -> None:
        self._mailbox = mailbox
        self._group = group.name
        self.ranks = ranks

    def tell(self, number: int, ask: Ask) -> None:
        """Say what this rank's collective `number` is (local)."""
        self._mailbox.send(Asked(self._group, number, ask), to=self.ranks)


def tell_who_joined(group: Communicator, mailbox: Mailbox) -> None:
    """Tell ranks that have joined what is under way, and all that follows (local; repeated)."""
    joined = joined_ranks(group, mailbox)
    known = frozenset() if group.audience is None else group.audience.ranks
    if joined.keys() <= known:
        return
    # First the audience, then the past: what begins in between is told twice, not left out.
    group.audience = Audience(mailbox, group, frozenset(joined))
    for rank in joined.keys() - known:
        for number, ask in list(group.history):
            if number > joined[rank].begun:
                mailbox.send(Asked(group.name, number, ask), to=[rank])


def joined_ranks(group: Communicator, mailbox: Mailbox) -> dict[int, Joined]:
    """Who has joined since the group last met in `join`, by rank in the world."""
    found = ((rank, mailbox.joined.get((rank, group.name))) for rank in group.world_ranks)
    return {rank: each for rank, each in found if each is not None and each.meeting == group.joins}
