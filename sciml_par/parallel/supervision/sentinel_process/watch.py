"""The sentinel's program: the watch over the ranks of one host."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from . import messages
from .launcher import end_launchers, launchers_of, starter_of_wrapped
from .other_hosts import Neighbours, OtherHosts
from .peer import Peer
from .rank_process import RankProcess

_GRACE_SECONDS = 2.0
"""The time for ranks to end the job in order, after the sentinel's message."""

_OWN_WAY_SECONDS = 8.0
"""The same if a rank ends the job, which has a separate time limit."""

_SECONDS_TO_DIE = 1.0
_SECONDS_TO_BEGIN = 60.0


class Watch:
    """Watches the ranks of one host, until all have gone.

    Attributes
    ----------
    told : whether the reason of the end was given.
    """

    def __init__(self, *, size: int, listener: socket.socket, neighbours: Neighbours) -> None:
        self._size, self._host = size, neighbours.host
        self._selector = selectors.DefaultSelector()
        self._ranks: set[Peer] = set()
        self._begun = False
        self._ended = False
        self._holds_line = False
        self._deadline = time.monotonic() + _SECONDS_TO_BEGIN
        self._signals = [signal.SIGTERM, signal.SIGKILL]
        self._oom_kills = messages.oom_kills()
        self._launchers: list[RankProcess] = []
        self.told = False
        self._watch(listener, lambda: self._accept(listener))
        self._others = OtherHosts(neighbours, self, self._watch, self._selector.unregister)

    def run(self) -> None:
        """Watch until no rank is left, or the rest ignores all signals."""
        while self._is_needed():
            limited = self.told or not self._begun
            if limited and time.monotonic() >= self._deadline and not self._hurry():
                break
            due = [self._others.due, self._deadline if limited else None]
            next_due = min((each for each in due if each is not None), default=None)
            self.look(None if next_due is None else max(next_due - time.monotonic(), 0.0))
            self._others.look_at_the_clock()
        self._others.leave()
        end_launchers(self._launchers)

    def _is_needed(self) -> bool:
        if not self._begun or self._ranks:
            return True
        # The launcher would end the job before the ranks of other hosts have.
        if self._holds_line:
            return self._others.any_left(reporting_here=False)
        return self._others.any_left(reporting_here=True) and not self.told

    def look(self, seconds: float | None) -> bool:
        """Handle events within that time, in their order; return whether there were any."""
        # The list of what is ready is in the order in which it became so: the first end is first.
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _watch(self, connection: socket.socket, action: Callable[[], None]) -> None:
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, action)

    def _accept(self, listener: socket.socket) -> None:
        try:
            peer = Peer(listener.accept()[0])
        except OSError:
            return
        self._watch(peer.connection, lambda: self._hear_rank(peer))
        self._hear_rank(peer)

    def _hear_rank(self, peer: Peer, *, has_ended: bool = False) -> None:
        if peer.connection.fileno() < 0:
            return  # both descriptors have told the same
        lines, closed = peer.read()
        closed = closed or has_ended
        for line in lines:
            word, *numbers = line.split() or [""]
            if word == "rank":
                peer.rank, pid = map(int, numbers)
                peer.process = RankProcess(pid)
                self._ranks.add(peer)
                self._begun = True
                # A child process may hold the connection open for longer than the rank lives.
                if peer.process.descriptor is not None:
                    ended = functools.partial(self._hear_rank, peer, has_ended=True)
                    self._selector.register(peer.process.descriptor, selectors.EVENT_READ, ended)
            elif word == "bye":
                peer.leave()
            elif word == "said":
                self.take_as_told()
        if closed:
            if peer in self._ranks and not peer.left and not self.told:
                self._report(peer)
            self._selector.unregister(peer.connection)
            if peer.process is not None and peer.process.descriptor is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(peer.process.descriptor)
            peer.close()
            self._ranks.discard(peer)

    def _report(self, peer: Peer) -> None:
        assert peer.process is not None
        status = peer.process.wait_status()
        if status == -1:
            return  # it has closed its files, or runs another program now
        self._holds_line = True
        how = messages.ending(status, messages.oom_kills() - self._oom_kills)
        self.announce(
            f"sciml_par: rank {peer.rank} of {self._size} on {self._host} "
            f"(process {peer.process.pid}) {how}\nsciml_par: the job ends.",
            hidden=not status,
        )

    def announce(self, message: str, *, hidden: bool = False) -> None:
        """Print it, here or by the sentinel of rank 0; only the first loss of a job is printed."""
        if self.told:
            return
        if not self._others.report(message):
            messages.write(f"{message}\n")
        if hidden:  # the ranks' exit codes may not reach the launcher, which fails by this
            for starter in {starter_of_wrapped(process.pid) for process in self._processes()}:
                if starter is not None:
                    RankProcess(starter).send_signal(signal.SIGTERM)
        self.end_ranks()

    def end_ranks(self, *, without_a_host: bool = False) -> None:
        """Tell the ranks of all hosts to end the job."""
        if self._ended:
            return
        self._ended = True
        if without_a_host:
            launchers = {pid for process in self._processes() for pid in launchers_of(process.pid)}
            self._launchers = [RankProcess(pid) for pid in launchers]
        self._hold_to(_GRACE_SECONDS)
        self._others.pass_on("end without a host" if without_a_host else "end")
        for peer in self._ranks:
            peer.tell("end")

    def take_as_told(self) -> None:
        """Note that a rank ends the job, so that further ends are not losses."""
        if not self.told:
            self._others.pass_on("said", upwards=True)
        self._hold_to(_OWN_WAY_SECONDS)

    def _hold_to(self, seconds: float) -> None:
        """Limit the time of the ranks to end."""
        limit = time.monotonic() + seconds
        self._deadline = min(self._deadline, limit) if self.told else limit
        self.told = True

    def _processes(self) -> list[RankProcess]:
        return [peer.process for peer in self._ranks if peer.process is not None]

    def _hurry(self) -> bool:
        """Send the remaining ranks the next signal; return False if there is none."""
        if not self._signals or not self._begun:
            return False
        number = self._signals.pop(0)
        for process in self._processes():
            process.send_signal(number)
        self._deadline = time.monotonic() + _SECONDS_TO_DIE
        return True


def main() -> None:
    """Take the settings from standard input, leave the rank that started this, and watch."""
    settings: dict[str, Any] = json.load(sys.stdin)
    listener = socket.socket(fileno=settings.pop("listener"))
    size = settings.pop("size")
    settings["hubs"] = [socket.socket(fileno=number) for number in settings["hubs"]]
    if settings["link"] is not None:
        settings["link"] = socket.socket(fileno=settings["link"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Not a child of the rank, which would have to wait for it.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    Watch(size=size, listener=listener, neighbours=Neighbours(**settings)).run()
    os._exit(0)
