"""The sentinel: a small program that watches a host's ranks from outside, and names the lost one.

A rank that is killed says nothing, and its launcher says little that is true: MPICH's kills the
others within milliseconds, names any of them, and after `os._exit(0)` calls the job a success. So
one process per host, in a session of its own that the launcher does not reach, holds a socket to
each rank. The kernel closes it when a rank is gone, in the order in which they go. A rank that
ends on purpose says so first; at any other end the sentinel says what is known, once, and has the
ranks that are left end the job. To come before the launcher it holds the rank's line to it open
as well.

The sentinels of several hosts report to that of rank 0, which alone writes. When a rank of one host
is lost, the launcher ends those of the others, by a signal or by an exit code, and to the sentinels
there that looks like a loss, too: on two hosts, under MPICH's launcher, a second rank was named in
5 of 18 runs without this connection, and in none of 20 with it.

`sentinel_client.py` starts it as `python -I -S`, by its path: here is nothing but the standard
library.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

_GRACE_SECONDS = 2.0
"""How long ranks may take to end the job in order, once they are told."""

_OWN_WAY_SECONDS = 8.0
"""The same where a rank ends the job by itself, which has a time limit of its own."""

_SECONDS_TO_DIE = 1.0
_SECONDS_TO_BEGIN = 60.0
_LONGEST_LINE = 65536
_EXITING = 0x4  # PF_EXITING, among the flags in /proc/<pid>/stat

# Linux 6.15 tells the end of a process that its parent has asked for already: <linux/pidfd.h>.
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii")  # the mask first, the wait status last


class Peer:
    """The other end of a connection, which speaks in lines: a rank, or another host's sentinel.

    Attributes
    ----------
    rank, pid : of a rank, once it has said so.
    left : whether it has said that it goes.
    process : a descriptor of the rank's process, by the number of which no other can be meant.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank: int | None = None
        self.pid = 0
        self.left = False
        self._unread = b""
        self._stat: int | None = None
        self.process: int | None = None
        self._by_number = False
        self._launcher: list[int] = []

    def read(self) -> tuple[list[str], bool]:
        """The lines that have come, and whether the other end is closed."""
        try:
            while True:
                part, given, _, _ = socket.recv_fds(self.connection, 4096, maxfds=1)
                self._unread += part
                self._launcher += given
                if not part:
                    closed = True
                    break
        except OSError as error:
            closed = not isinstance(error, BlockingIOError)
        *lines, self._unread = self._unread.split(b"\n")
        closed = closed or len(self._unread) > _LONGEST_LINE
        return [line.decode(errors="replace") for line in lines], closed

    def tell(self, line: str) -> None:
        """Send a line, if the other end can still take it."""
        with contextlib.suppress(OSError):
            self.connection.sendall(f"{line}\n".encode())

    def leave(self) -> None:
        """It has said that it goes: from now on its end is the launcher's concern."""
        self.left = True
        while self._launcher:
            os.close(self._launcher.pop())

    def close(self) -> None:
        """Give up what is open for it, but for a lost rank's line to the launcher."""
        self.connection.close()
        for descriptor in (self._stat, self.process):
            if descriptor is not None:
                os.close(descriptor)

    def is_rank(self, rank: int, pid: int) -> None:
        """Take down who it is; what the kernel knows of it is opened before it is too late."""
        self.rank, self.pid = rank, pid
        with contextlib.suppress(OSError):
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            self.process = os.pidfd_open(pid)
        except (OSError, AttributeError) as error:
            # A kernel before Linux 5.3, another system, or a container that forbids it.
            self._by_number = getattr(error, "errno", None) in (None, errno.ENOSYS, errno.EPERM)

    def send_signal(self, number: int) -> None:
        """Send the rank a signal, if it is still there; never another process of its number."""
        with contextlib.suppress(OSError):
            if self.process is not None:
                signal.pidfd_send_signal(self.process, number)
            elif self._by_number:
                os.kill(self.pid, number)

    def wait_status(self) -> int | None:
        """How the process ends, as `os.wait` gives it; -1 if it goes on; None if unknown.

        The kernel shows it from the moment the process begins to end until its parent has asked;
        a new one shows it afterwards as well.
        """
        for pause in (0.0, 0.05):
            time.sleep(pause)
            fields = self._state()
            if fields is None:
                return self._status_after_all()
            if fields[0] in "ZX" or int(fields[6]) & _EXITING:
                return int(fields[49])
        return -1

    def _status_after_all(self) -> int | None:
        info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *12 * [0], 0))
        try:
            fcntl.ioctl(-1 if self.process is None else self.process, _PIDFD_GET_INFO, info)
        except (OSError, ValueError):
            return None
        mask, *_, status = _PIDFD_INFO.unpack(info)
        return int(status) if mask & _PIDFD_INFO_EXIT else None

    def _state(self) -> list[str] | None:
        if self._stat is None:
            return None
        try:
            return os.pread(self._stat, 4096, 0).decode().rpartition(")")[2].split()
        except OSError:
            return None


class Watch:
    """Watches the ranks of one host, until all have gone.

    Parameters
    ----------
    size : the number of ranks of the job.
    host : the name of this host.
    listener : where the ranks of this host connect.
    hubs : where the sentinels of other hosts connect, on the host of rank 0 of several.
    link : the connection to that one, on the others.
    token : what they must know.
    """

    def __init__(
        self,
        *,
        size: int,
        host: str,
        listener: socket.socket,
        hubs: Iterable[socket.socket],
        link: socket.socket | None,
        token: str,
    ) -> None:
        self._size, self._host, self._token = size, host, token
        self._selector = selectors.DefaultSelector()
        self._ranks: set[Peer] = set()
        self._hosts: set[Peer] = set()
        self._link = Peer(link) if link else None
        self._begun = False
        self._told = False
        self._ended = False
        self._holds_line = False
        self._deadline = time.monotonic() + _SECONDS_TO_BEGIN
        self._signals = [signal.SIGTERM, signal.SIGKILL]
        self._oom_kills = oom_kills()
        self._watch(listener, lambda: self._accept(listener, self._hear_rank))
        for hub in hubs:
            self._watch(hub, functools.partial(self._accept, hub, self._hear_host))
        if self._link:
            self._watch(self._link.connection, self._hear_hub)
            self._link.tell(f"host {token}")

    def run(self) -> None:
        """Watch until nobody is left, or those that are left do not heed a signal."""
        while self._is_needed():
            limited = self._told or not self._begun
            left = self._deadline - time.monotonic() if limited else None
            if left is not None and left <= 0.0 and not self._hurry():
                break
            self.look(None if left is None else max(left, 0.0))
        for peer in (*self._hosts, *([self._link] if self._link else [])):
            peer.close()

    def _is_needed(self) -> bool:
        if not self._begun or self._ranks:
            return True
        if self._holds_line:
            # The launcher would end the job before the ranks of other hosts have.
            return bool(self._hosts or self._link)
        return bool(self._hosts) and not self._told

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

    def _accept(self, listener: socket.socket, hear: Callable[[Peer], None]) -> None:
        try:
            peer = Peer(listener.accept()[0])
        except OSError:
            return
        self._watch(peer.connection, lambda: hear(peer))
        hear(peer)

    def _watch_process(self, peer: Peer) -> None:
        # A child process may hold the connection open for longer than the rank lives.
        if peer.process is not None:
            self._selector.register(
                peer.process, selectors.EVENT_READ, lambda: self._hear_rank(peer, has_ended=True)
            )

    def _forget(self, peer: Peer) -> None:
        self._selector.unregister(peer.connection)
        if peer.process is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(peer.process)
        peer.close()
        self._ranks.discard(peer)
        self._hosts.discard(peer)

    def _hear_rank(self, peer: Peer, *, has_ended: bool = False) -> None:
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
                self._take_as_told(_OWN_WAY_SECONDS)
        if closed:
            if peer in self._ranks and not peer.left and not self._told:
                self._report(peer)
            self._forget(peer)

    def _hear_host(self, peer: Peer) -> None:
        lines, closed = peer.read()
        for line in lines:
            word, _, text = line.partition(" ")
            if word == "host" and text == self._token:
                # A host that loses its power closes nothing.
                peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._hosts.add(peer)
            elif peer not in self._hosts:
                closed = True
            elif word == "gone":
                self._announce(json.loads(text))
            elif word == "said":
                self._take_as_told(_OWN_WAY_SECONDS)
        if closed:
            self._forget(peer)

    def _hear_hub(self) -> None:
        assert self._link is not None
        lines, closed = self._link.read()
        for line in lines:
            if line == "end":
                self._end_ranks()
            elif line == "said":
                self._take_as_told(_OWN_WAY_SECONDS)
        if closed:
            self._selector.unregister(self._link.connection)
            self._link = None

    def _report(self, peer: Peer) -> None:
        status = peer.wait_status()
        if status == -1:
            return  # it has closed its files, or runs another program now
        self._holds_line = True
        kills = oom_kills() - self._oom_kills
        self._announce(
            f"sciml_par: rank {peer.rank} of {self._size} on {self._host} (process {peer.pid}) "
            f"{ending(status, kills)}\nsciml_par: the job ends."
        )

    def _announce(self, message: str) -> None:
        """Say it, or let the sentinel of rank 0 say it; only the first loss of a job is told."""
        if self._told:
            return
        if self._link:
            self._link.tell(f"gone {json.dumps(message)}")
        else:
            write(f"{message}\n")
        self._end_ranks()

    def _end_ranks(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._take_as_told(_GRACE_SECONDS, word="end")
        for peer in self._ranks:
            peer.tell("end")

    def _take_as_told(self, seconds: float, *, word: str = "said") -> None:
        """From now on ranks go because the job ends; let them have so many seconds for it."""
        limit = time.monotonic() + seconds
        self._deadline = min(self._deadline, limit) if self._told else limit
        if not self._told or word == "end":
            for peer in self._hosts:
                peer.tell(word)
        if not self._told and word == "said" and self._link:
            self._link.tell(word)
        self._told = True

    def _hurry(self) -> bool:
        """Send the ranks that are left the next signal; False if there is none."""
        if not self._signals or not self._begun:
            return False
        number = self._signals.pop(0)
        for peer in self._ranks:
            peer.send_signal(number)
        self._deadline = time.monotonic() + _SECONDS_TO_DIE
        return True


def ending(status: int | None, kills: int) -> str:
    """How a process with this wait status ended, where `kills` were killed for lack of memory."""
    if status is None:
        return "is gone: it was killed, or left by os._exit; how cannot be seen any more."
    number = status & 0x7F
    if number == 0:
        code = status >> 8
        return (
            f"left with exit code {code} past the end of the program (os._exit, or a library that "
            f"ends the process), while other ranks were at work."
        )
    try:
        name = f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGTERM:
        return f"was ended by {name}: somebody, the launcher or the scheduler asked it to end."
    if number == signal.SIGKILL and kills > 0:
        return (
            f"was killed by {name}. The kernel killed {kills} process(es) of this host for lack "
            f"of memory meanwhile: start fewer ranks per host, or give each less to hold."
        )
    return f"was killed by {name}."


def oom_kills() -> int:
    """How many processes of this host the kernel has killed for lack of memory; 0 if unknown."""
    with contextlib.suppress(OSError), open("/proc/vmstat", "rb") as file:
        for line in file:
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def write(text: str) -> None:
    """Write to standard error in one piece, if anybody still reads it."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


def main() -> None:
    """Take the settings from standard input, leave the rank that started this, and watch."""
    settings: dict[str, Any] = json.load(sys.stdin)
    for name in ("listener", "link"):
        if settings[name] is not None:
            settings[name] = socket.socket(fileno=settings[name])
    settings["hubs"] = [socket.socket(fileno=number) for number in settings["hubs"]]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Nobody's child: the rank has no zombie to collect, and none of its own waits meets it.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    Watch(**settings).run()
    os._exit(0)


if __name__ == "__main__":
    main()
