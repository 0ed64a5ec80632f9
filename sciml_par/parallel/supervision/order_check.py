"""Whether ranks still do the same: digests of their order are compared, about once a second.

What ranks have agreed on they do not compare again. If two of them later ask for different
collectives of that kind, nothing need stand still, and what they compute is wrong.
"""

from __future__ import annotations

from sciml_par.parallel.groups.mailbox import Identity, Mailbox, OrderDigest
from sciml_par.parallel.groups.progress import Group

SECONDS = 1.0
"""How often rank 0 of a group tells the others what it has done."""


class OrderCheck:
    """Compares what this rank has done in its groups with what rank 0 of each has."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._told: dict[Identity, tuple[int, float]] = {}

    def look(self, group: Group, now: float) -> str | None:
        """Tell or compare the digest of a group; what is wrong with it, or None."""
        if group.rank == 0:
            self._tell(group, now)
            return None
        theirs = self._mailbox.order_digests.get(group.identity)
        if theirs is None or not _is_past(group, theirs.number):
            return None  # nothing new, or not there yet
        del self._mailbox.order_digests[group.identity]
        mine = group.progress.digest_after(theirs.number)
        if theirs.recoveries != group.progress.recoveries or mine is None or mine == theirs.digest:
            return None
        return (
            f"Ranks 0 and {group.rank} of «{group.name}» did not ask for the same collectives in "
            f"the same order, up to their collective number {theirs.number}. Results since then "
            f"are wrong. All these had been agreed on before, so they were not compared. Run with "
            f"SCIML_PAR_CHECK=always to find the place."
        )

    def forget_gone(self, groups: set[Identity]) -> None:
        """Drop what is known of groups that are not among `groups`."""
        for group in [each for each in self._told if each not in groups]:
            del self._told[group]

    def _tell(self, group: Group, now: float) -> None:
        number, since = self._told.get(group.identity, (0, -SECONDS))
        recoveries = (
            group.progress.recoveries
        )  # read first: the digest must not be of an earlier count
        newest = group.progress.newest_digest()
        if newest is None or newest[0] == number or now - since < SECONDS:
            return
        if not _is_past(group, newest[0]):
            return
        self._told[group.identity] = newest[0], now
        message = OrderDigest(group.identity, recoveries, *newest)
        self._mailbox.send(message, to=group.world_ranks[1:])


def _is_past(group: Group, number: int) -> bool:
    """Return whether the collective is over; what is in progress is the watchdog's to look at."""
    return number < group.progress.sequence or (
        number == group.progress.sequence and group.progress.in_progress is None
    )
