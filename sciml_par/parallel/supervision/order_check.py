"""Compare digests of the ranks' orders of collectives, about once a second and at the end.

Agreed signatures are not compared again. If two ranks later confuse such collectives, nothing need
stand still, but results are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Identity, Left, Mailbox, OrderDigest

SECONDS = 1.0
"""The interval at which rank 0 of a group sends its digest."""


class OrderCheck:
    """Compares this rank's order in each group with that of the group's rank 0."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.told: dict[Identity, tuple[int, float]] = {}

    def look(self, group: Communicator, now: float) -> str | None:
        """Send or compare the digest of a group; return a message if it differs, or None."""
        if group.rank == 0:
            number, since = self.told.get(group.identity, (0, -SECONDS))
            # Read first: the digest must not be of an earlier count.
            recoveries = group.progress.recoveries
            newest = group.progress.newest_digest()
            is_new = newest is not None and newest[0] != number and now - since >= SECONDS
            if newest is not None and is_new and is_over(group, newest[0]):
                self.told[group.identity] = newest[0], now
                message = OrderDigest(group.identity, recoveries, *newest)
                self._mailbox.send(message, to=group.world_ranks[1:])
            return None
        theirs = self._mailbox.order_digests.get(group.identity)
        if theirs is None or not is_over(group, theirs.number):
            return None  # nothing new, or not there yet
        del self._mailbox.order_digests[group.identity]
        mine = group.progress.digest_after(theirs.number)
        if theirs.recoveries != group.progress.recoveries or mine is None or mine == theirs.digest:
            return None
        return order_message(group, 0, theirs.number)


def difference_at_the_end(group: Communicator, left: Mapping[int, Left]) -> str | None:
    """Return what is wrong if a rank has ended after other collectives than this one, or None."""
    for rank, world_rank in enumerate(group.world_ranks):
        if world_rank in left and not ends_alike(group, left[world_rank]):
            return order_message(group, rank, group.progress.sequence)
    return None


def ends_alike(group: Communicator, other: Left) -> bool:
    """Return False if a rank ended after as many collectives as this one began, but others."""
    mine = group.progress.sequence, group.progress.order_digest
    theirs = other.begun.get(group.identity, mine)
    return theirs[0] != mine[0] or theirs == mine


def order_message(group: Communicator, other: int, number: int) -> str:
    """Return what is wrong where this rank and `other` differ before their collective `number`."""
    return (
        f"Ranks {other} and {group.rank} of «{group.name}» did not ask for the same collectives in "
        f"the same order, up to their collective number {number}. Results since then are wrong. "
        f"All these had been agreed on before, so they were not compared. Run with "
        f"SCIML_PAR_CHECK=always to find the place."
    )


def is_over(group: Communicator, number: int) -> bool:
    """Return whether this rank has finished the collective `number`."""
    return number < group.progress.sequence or (
        number == group.progress.sequence and group.progress.in_progress is None
    )
