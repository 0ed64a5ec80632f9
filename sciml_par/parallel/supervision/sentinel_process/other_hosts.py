"""The connections to the sentinels of other hosts, their reports, and their loss."""

from __future__ import annotations

import functools
import json
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import messages
from .peer import Peer, keep_asking

_SECONDS_TO_REPORT = 20.0
"""The time for hosts to connect to that of rank 0, before a warning."""


@dataclass(frozen=True)
class Neighbours:
    """This host, and its connections to the others.

    Parameters
    ----------
    token : shared by the sentinels of the job.
    """

    host: str
    ranks: Sequence[int]
    hubs: Sequence[socket.socket] = ()
    link: socket.socket | None = None
    token: str = ""
    expected: Sequence[tuple[str, Sequence[int]]] = ()
    seconds: float = math.inf


def introduce(link: socket.socket, token: str, host: str, ranks: Sequence[int]) -> None:
    """Introduce this host to the sentinel of rank 0.

    The rank that makes the connection does so; from then on both ends notice its loss.
    """
    link.sendall(f"host {token} {json.dumps({'host': host, 'ranks': list(ranks)})}\n".encode())


class OtherHosts:
    """The connections to the sentinels of other hosts: a star around that of rank 0.

    job : this host's `Watch`, which acts on reports of others.
    """

    def __init__(
        self,
        neighbours: Neighbours,
        job: Any,
        watch: Callable[[socket.socket, Callable[[], None]], None],
        forget: Callable[[socket.socket], object],
    ) -> None:
        self._my, self._job = neighbours, job
        self._watch, self._unwatch = watch, forget
        self._hosts: set[Peer] = set()
        self._missing: dict[int, tuple[str, Sequence[int]]] = {}
        self._link: Peer | None = None
        self.due: float | None = None
        if neighbours.link is not None:
            self._link = Peer(neighbours.link)
            (self._link.host, self._link.ranks), *_ = neighbours.expected or [("of rank 0", [0])]
            keep_asking(neighbours.link, neighbours.seconds, first=False)
            watch(neighbours.link, functools.partial(self._hear, self._link))
        elif neighbours.expected:
            self._missing = {ranks[0]: (host, ranks) for host, ranks in neighbours.expected}
            self.due = time.monotonic() + _SECONDS_TO_REPORT
        for hub in neighbours.hubs:
            watch(hub, functools.partial(self._accept, hub))

    def any_left(self, *, reporting_here: bool) -> bool:
        """Return whether there is a connection to another host, or to one that reports here."""
        return bool(self._hosts) or (self._link is not None and not reporting_here)

    def report(self, message: str) -> bool:
        """Let the sentinel of rank 0 print it; return False if this is that sentinel."""
        if self._link is not None:
            self._link.tell(f"gone {json.dumps(message)}")
        return self._link is not None

    def pass_on(self, word: str, *, upwards: bool = False) -> None:
        """Send to the sentinels that report here; with `upwards`, also to that of rank 0."""
        for peer in (*self._hosts, *([self._link] if upwards and self._link else [])):
            peer.tell(word)

    def look_at_the_clock(self) -> None:
        """Warn once of the hosts that have not connected in time."""
        if self.due is None or time.monotonic() < self.due:
            return
        self.due = None
        if self._missing and not self._job.told:
            names = [f"{host}:{port}" for host, port in (h.getsockname() for h in self._my.hubs)]
            messages.write(messages.missing([*self._missing.values()], names))

    def leave(self) -> None:
        """Announce that this host has no ranks any more, and close all connections."""
        self.pass_on("bye", upwards=True)
        for peer in (*self._hosts, *([self._link] if self._link else [])):
            peer.close()

    def _accept(self, hub: socket.socket) -> None:
        try:
            peer = Peer(hub.accept()[0])
        except OSError:
            return
        self._watch(peer.connection, lambda: self._hear(peer))
        self._hear(peer)

    def _hear(self, peer: Peer) -> None:
        lines, closed = peer.read()
        for line in lines:
            word, _, text = line.partition(" ")
            if peer is self._link and word == "end":
                self._job.end_ranks(without_a_host=bool(text))
            elif word == "host" and text.partition(" ")[0] == self._my.token:
                facts = json.loads(text.partition(" ")[2] or "{}")
                peer.host, peer.ranks = facts.get("host", "?"), facts.get("ranks", [])
                self._missing.pop(min(peer.ranks, default=-1), None)
                # What this one says about a lost host is most likely to be read.
                keep_asking(peer.connection, self._my.seconds, first=True)
                self._hosts.add(peer)
            elif peer is not self._link and peer not in self._hosts:
                closed = True
            elif word == "gone":
                self._job.announce(json.loads(text))
            elif word == "said":
                self._job.take_as_told()
            elif word == "bye":
                peer.leave()
        if closed:
            known = peer is self._link or peer in self._hosts
            self._link = None if peer is self._link else self._link
            self._hosts.discard(peer)
            self._unwatch(peer.connection)
            peer.close()
            if known:
                self._note_the_end_of(peer)

    def _note_the_end_of(self, peer: Peer) -> None:
        """Report an ended connection, if its sentinel or its host is lost."""
        if peer.left or self._job.told:
            return
        who = messages.host_and_ranks(peer.host, peer.ranks)
        if peer.error is None or math.isinf(self._my.seconds):
            messages.write(messages.unwatched(who))
        else:
            messages.write(messages.loss(who, self._my.host, self._my.seconds, peer.error))
            self._job.end_ranks(without_a_host=True)
