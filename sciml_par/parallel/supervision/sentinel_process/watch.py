"""The watch over the ranks of one host."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import time
from collections.abc import Callable

from . import messages
from .launcher import end_launchers, launchers_of, starter_of_wrapped
from .other_hosts import Neighbours, OtherHosts
from .peer import RankPeer
from .rank_process import RankProcess

_GRACE_SECONDS = 2.0
"""How long ranks may take to end the job in order, once they are told."""

_OWN_WAY_SECONDS = 8.0
"""The same where a rank ends the job by itself, which has a time limit of its own."""

_SECONDS_TO_DIE = 1.0
_SECONDS_TO_BEGIN = 60.0


class Watch:
    """Watches the ranks of one host, until all have gone.

    Attributes
    ----------
    told : whether somebody has said why the job ends.
    """

    def __init__(self, *, size: int, listener: socket.socket, neighbours: Neighbours) -> None:
        self._size, self._host = size, neighbours.host
        self._selector = selectors.DefaultSelector()
        self._ranks: set[RankPeer] = set()
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
        """Watch until nobody is left, or those that are left do not heed a signal."""
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
        if self._holds_line:
            # The launcher would end the job before the ranks of other hosts have.
            return self._others.any_left
        return self._others.any_report_here and not self.told

    def look(self, seconds: float | None) -> bool:
        """Take in what comes within that time, in its order; whether anything came."""
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
            peer = RankPeer(listener.accept()[0])
        except OSError:
            return
        self._watch(peer.connection, lambda: self._hear_rank(peer))
        self._hear_rank(peer)

    def _watch_process(self, peer: RankPeer) -> None:
        # A child process may hold the connection open for longer than the rank lives.
        descriptor = _descriptor_of(peer)
        if descriptor is not None:
            self._selector.register(
                descriptor, selectors.EVENT_READ, lambda: self._hear_rank(peer, has_ended=True)
            )

    def _forget(self, peer: RankPeer) -> None:
        self._selector.unregister(peer.connection)
        descriptor = _descriptor_of(peer)
        if descriptor is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
        peer.close()
        self._ranks.discard(peer)

    def _hear_rank(self, peer: RankPeer, *, has_ended: bool = False) -> None:
        if peer.connection.fileno() < 0:
            return  # both descriptors have told the same
        lines, closed = peer.read()
        closed = closed or has_ended
        for line in lines:
            word, *numbers = line.split() or [""]
            if word == "rank":
                peer.is_rank(*map(int, numbers))
                self._ranks.add(peer)
                self._watch_process(peer)
                self._begun = True
            elif word == "bye":
                peer.leave()
            elif word == "said":
                self.take_as_told()
        if closed:
            if peer in self._ranks and not peer.left and not self.told:
                self._report(peer)
            self._forget(peer)

    def _report(self, peer: RankPeer) -> None:
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
        """Say it, or let the sentinel of rank 0 say it; only the first loss of a job is told."""
        if self.told:
            return
        if not self._others.report(message):
            messages.write(f"{message}\n")
        if hidden:
            self._fail_launcher()
        self.end_ranks()

    def _fail_launcher(self) -> None:
        """Have the launcher itself fail, where the ranks' exit codes may not reach it."""
        ranks = [peer.process.pid for peer in self._ranks if peer.process is not None]
        for starter in set(map(starter_of_wrapped, ranks)):
            if starter is not None:
                RankProcess(starter).send_signal(signal.SIGTERM)

    def lose_host(self, message: str) -> None:
        """Say that a host is lost, and end the job without it."""
        messages.write(f"{message}\n")
        self.end_ranks(without_a_host=True)

    def warn(self, message: str) -> None:
        """Say what the user should know, though the job goes on."""
        messages.write(message)

    def end_ranks(self, *, without_a_host: bool = False) -> None:
        """Tell the ranks of all hosts to end the job."""
        if self._ended:
            return
        self._ended = True
        if without_a_host:
            self._launchers = self._find_launchers()
        self._hold_to(_GRACE_SECONDS)
        self._others.pass_on("end without a host" if without_a_host else "end")
        for peer in self._ranks:
            peer.tell("end")

    def _find_launchers(self) -> list[RankProcess]:
        """Those of the ranks that are still there, and so can be asked for."""
        ranks = [peer.process.pid for peer in self._ranks if peer.process is not None]
        return [RankProcess(pid) for pid in {each for pid in ranks for each in launchers_of(pid)}]

    def take_as_told(self) -> None:
        """A rank ends the job by itself: from now on ranks go because the job ends."""
        if not self.told:
            self._others.pass_on("said", upwards=True)
        self._hold_to(_OWN_WAY_SECONDS)

    def _hold_to(self, seconds: float) -> None:
        """Let the ranks have so many seconds to go."""
        limit = time.monotonic() + seconds
        self._deadline = min(self._deadline, limit) if self.told else limit
        self.told = True

    def _hurry(self) -> bool:
        """Send the ranks that are left the next signal; False if there is none."""
        if not self._signals or not self._begun:
            return False
        number = self._signals.pop(0)
        for peer in self._ranks:
            if peer.process is not None:
                peer.process.send_signal(number)
        self._deadline = time.monotonic() + _SECONDS_TO_DIE
        return True


def _descriptor_of(peer: RankPeer) -> int | None:
    return None if peer.process is None else peer.process.descriptor
