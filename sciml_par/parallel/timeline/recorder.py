"""What one rank's collectives were, and when: cheap to note, drained by the timeline."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sciml_par.parallel.requests.signature import NUMBERS_OF_ROWS

if TYPE_CHECKING:
    from sciml_par.parallel.groups.communicator import Communicator
    from sciml_par.parallel.requests.signature import Signature

_LIMIT = 200_000


@dataclass(frozen=True)
class EventKind:
    """What equal events have in common.

    Attributes
    ----------
    group : the group's name.
    members : its ranks' numbers in the world, [P].
    name : what the program calls it, or else `call`.
    call : the collective, as messages describe it, without its transport.
    size : how many bytes this rank gives.
    transport : the name of what carries it.
    root : the number in the world of the rank that the others wait for; None where all wait for
        all.
    tensor : whether it is a tensor's; if not, it is an exchange on the host.
    identity : the group's; another group may have had its name.
    """

    group: str
    members: tuple[int, ...]
    name: str
    call: str
    size: int
    transport: str
    root: int | None
    tensor: bool
    identity: tuple[int, int] = (0, 0)


class Row(NamedTuple):
    """An event: the number of its kind, its number in the group, and when it was, in ns.

    `agreed`: the ranks compared first what they ask for. `enqueued`: it ended when a GPU had been
    given the work, not when that was done.
    """

    kind: int
    sequence: int
    begun: int
    ended: int
    agreed: bool
    enqueued: bool


_Note = tuple["Communicator", int, "Signature", int, int, int, bool, bool]


class Recorder:
    """The events of this rank that are still to be written (local).

    One thread notes, another may drain.

    Parameters
    ----------
    limit : how many events are kept at the most; past it new ones are dropped and counted.
    """

    now = staticmethod(time.monotonic_ns)

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._notes: deque[_Note] = deque()
        self._numbers: dict[tuple[Communicator, Signature, int], int] = {}
        self._dropped = 0
        self._dropped_told = 0

    def note(
        self,
        group: Communicator,
        signature: Signature,
        begun: int,
        size: int = -1,
        agreed: bool = True,
        enqueued: bool = False,
    ) -> None:
        """A collective of `group` that began at `begun` is over; without `size` no tensor's."""
        if len(self._notes) >= self._limit:
            self._dropped += 1
            return
        # Objects as they are: to make words of them is the drain's work, which has time.
        self._notes.append(
            (group, group.sequence, signature, size, begun, time.monotonic_ns(), agreed, enqueued)
        )

    def drain(self, most: int = _LIMIT) -> tuple[dict[int, EventKind], list[Row]]:
        """Take out the oldest events, `most` of them at the most.

        Returns
        -------
        kinds : {number: kind} of those numbers that were not given before.
        rows : the events in order.
        """
        kinds: dict[int, EventKind] = {}
        rows: list[Row] = []
        for _ in range(min(most, len(self._notes))):
            group, sequence, signature, size, begun, ended, agreed, enqueued = self._notes.popleft()
            key = (group, signature, size)
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._numbers)
                kinds[number] = _kind(group, signature, size)
            rows.append(Row(number, sequence, begun, ended, agreed, enqueued))
        return kinds, rows

    def __len__(self) -> int:
        return len(self._notes)

    def dropped(self) -> int:
        """How many events were dropped since the last time that this was asked."""
        total = self._dropped
        since, self._dropped_told = total - self._dropped_told, total
        return since


def _kind(group: Communicator, signature: Signature, size: int) -> EventKind:
    members = tuple(group.world_ranks)
    root = None if signature.root is None else members[signature.root]
    call = str(signature).removesuffix(f" by {signature.transport}")
    name = signature.name or call
    if signature.name and signature.rows_only:
        name += NUMBERS_OF_ROWS
    return EventKind(
        group.name,
        members,
        name,
        call,
        max(size, 0),
        signature.transport,
        root,
        size >= 0,
        group.identity,
    )
