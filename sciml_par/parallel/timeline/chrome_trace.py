"""The ranks' events matched, and written as Chrome's trace format has them.

The format: "Trace Event Format", Google, 2016; arrays of events, of which chrome://tracing and
ui.perfetto.dev make pictures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sciml_par.parallel.timeline.recorder import EventKind, Row

_LIMIT = 200_000
_FIRST = 1
"""Processes and threads are numbered from here: Perfetto takes 0 for a part of the system."""

_Group = tuple[str, tuple[int, ...]]
_Place = tuple[int, tuple[int, int], int]
"""A group's thread and identity, and the number of a collective in the group."""


@dataclass(frozen=True)
class _Words:
    """The parts of an event's text that its kind decides."""

    kind: EventKind
    thread: int
    head: str
    place: str
    args: str


class Trace:
    """Makes JSON of the events of all ranks.

    A collective is written when all members of its group have told of it, because only then is
    it known who came last.

    Parameters
    ----------
    origin : the time 0 of the timeline, in ns of rank 0's clock.
    offsets : what to add to each rank's clock to have rank 0's, in ns, [P].
    limit : how many collectives may wait for other ranks' events.
    """

    def __init__(self, origin: int, offsets: Sequence[int], *, limit: int = _LIMIT) -> None:
        self.origin = origin
        self._shifts = [offset - origin for offset in offsets]
        self._limit = limit
        self._words: dict[tuple[int, int], _Words] = {}
        self._threads: dict[_Group, int] = {}
        self._named: set[tuple[int, int]] = set()
        self._waiting: dict[_Place, dict[int, Row]] = {}
        self.unmatched = 0

    def head(self, hosts: Sequence[str]) -> Iterator[str]:
        """The names of the ranks, which are on these hosts, [P]."""
        for rank, host in enumerate(hosts):
            yield _metadata(rank, _FIRST, "process_name", {"name": f"rank {rank} on {host}"})
            yield _metadata(rank, _FIRST, "process_sort_index", {"sort_index": rank})

    def add(self, rank: int, kinds: Mapping[int, EventKind], rows: Sequence[Row]) -> Iterator[str]:
        """Take in what `rank` has done; gives the events that this completes."""
        for number, kind in kinds.items():
            yield from self._introduce(rank, number, kind)
        for row in rows:
            words = self._words[rank, row[0]]
            place = (words.thread, words.kind.identity, row[1])
            met = self._waiting.setdefault(place, {})
            met[rank] = row
            if len(met) == len(words.kind.members):
                yield from self._complete(self._waiting.pop(place))
        while len(self._waiting) > self._limit:
            yield from self._incomplete(self._waiting.pop(next(iter(self._waiting))))

    def rest(self) -> Iterator[str]:
        """The events whose partners have not come, without their wait."""
        waiting, self._waiting = self._waiting, {}
        for met in waiting.values():
            yield from self._incomplete(met)

    def mark(self, name: str, moment: int, args: Mapping[str, object]) -> str:
        """A note at a moment of rank 0's clock, in ns, over all ranks."""
        event = {"name": name, "ph": "i", "s": "g", "pid": _FIRST, "tid": _FIRST}
        moment_us = (moment + self._shifts[0]) / 1000
        return json.dumps({**event, "ts": moment_us, "args": dict(args)}, separators=(",", ":"))

    def _introduce(self, rank: int, number: int, kind: EventKind) -> Iterator[str]:
        group = (kind.group, kind.members)
        thread = self._threads.setdefault(group, len(self._threads) + _FIRST)
        if (rank, thread) not in self._named:
            self._named.add((rank, thread))
            yield _metadata(rank, thread, "thread_name", {"name": kind.group})
            yield _metadata(rank, thread, "thread_sort_index", {"sort_index": thread})
        category = "collective" if kind.tensor else "exchange"
        place = f'"ph":"X","pid":{rank + _FIRST},"tid":{thread},"ts":'
        head = f'{{"name":{json.dumps(kind.name)},"cat":"{category}",{place}'
        args = {"rank": rank, "bytes": kind.size, "group": kind.group, "transport": kind.transport}
        if kind.call != kind.name:
            args["call"] = kind.call
        text = json.dumps(args, separators=(",", ":"))[1:-1]
        self._words[rank, number] = _Words(kind, thread, head, place, text)

    def _complete(self, met: dict[int, Row]) -> Iterator[str]:
        shifts, words = self._shifts, self._words
        last = max(row.begun + shifts[rank] for rank, row in met.items())
        for rank, row in met.items():
            its, shift = words[rank, row[0]], shifts[rank]
            begun, ended = row[2] + shift, row[3] + shift
            root = its.kind.root
            arrived = last
            if root is not None and not row.agreed:
                # Nobody but the root sends, so nobody waits for another one.
                arrived = met[root].begun + shifts[root]
            yield _event(its, row, begun, min(max(arrived, begun), ended), ended)

    def _incomplete(self, met: dict[int, Row]) -> Iterator[str]:
        for rank, row in met.items():
            self.unmatched += 1
            shift = self._shifts[rank]
            yield _event(
                self._words[rank, row.kind], row, row.begun + shift, None, row.ended + shift
            )


def _event(words: _Words, row: Row, begun: int, arrived: int | None, ended: int) -> str:
    """A collective, with its wait and its transfer inside; without them if nobody knows."""
    _, sequence, _, _, agreed, enqueued = row
    flags = (',"agreed":true' if agreed else "") + (',"enqueued":true' if enqueued else "")
    start, place = f"{begun / 1000:.3f}", words.place
    outer = (
        f'{words.head}{start},"dur":{(ended - begun) / 1000:.3f},"args":{{{words.args},'
        f'"number":{sequence}{flags}'
    )
    if arrived is None:
        return f'{outer},"unmatched":true}}}}'
    wait, transfer = f"{(arrived - begun) / 1000:.3f}", f"{(ended - arrived) / 1000:.3f}"
    outer = f'{outer},"wait_us":{wait},"transfer_us":{transfer}}}}}'
    if arrived == begun:
        return f'{outer},\n{{"name":"transfer","cat":"transfer",{place}{start},"dur":{transfer}}}'
    return (
        f'{outer},\n{{"name":"wait","cat":"wait",{place}{start},"dur":{wait}}},\n'
        f'{{"name":"transfer","cat":"transfer",{place}{arrived / 1000:.3f},"dur":{transfer}}}'
    )


def _metadata(rank: int, thread: int, name: str, args: Mapping[str, object]) -> str:
    event = {"name": name, "ph": "M", "pid": rank + _FIRST, "tid": thread, "args": dict(args)}
    return json.dumps(event, separators=(",", ":"))
