"""The other end of a connection by lines: a rank, or another host's sentinel.

Hosts watch each other by TCP's own probes (keepalive). The kernels send and answer them, so a
sentinel that is stopped, or waits for a core, does not count as a lost host, nor does time in which
a machine sleeps.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Sequence

from .rank_process import RankProcess

_LONGEST_LINE = 65536
_PROBES = 10
"""Sent within the allowed time: some may be lost on a bad link."""

_LONGEST_INTERVAL = 30
_LONGEST_WAIT = 10**6


class Peer:
    """The other end of a connection.

    Attributes
    ----------
    rank, process : of a rank of this host, its number and its process, once it has sent them.
    host, ranks : of another host's sentinel, as it has reported.
    left : whether it has announced its end.
    error : of the connection, if the other end did not close it in order.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank: int | None = None
        self.process: RankProcess | None = None
        self.host = ""
        self.ranks: Sequence[int] = ()
        self.left = False
        self.error: OSError | None = None
        self._unread = b""
        self._launcher: list[int] = []

    def read(self) -> tuple[list[str], bool]:
        """Return the lines received, and whether the other end is closed."""
        try:
            while True:
                part, given, _, _ = socket.recv_fds(self.connection, 4096, maxfds=1)
                self._unread += part
                self._launcher += given
                if not part:
                    closed = True
                    break
        except BlockingIOError:
            closed = False
        except OSError as error:
            self.error, closed = error, True
        *lines, self._unread = self._unread.split(b"\n")
        closed = closed or len(self._unread) > _LONGEST_LINE
        return [line.decode(errors="replace") for line in lines], closed

    def tell(self, line: str) -> None:
        """Send a line, if the other end can still take it."""
        with contextlib.suppress(OSError):
            self.connection.sendall(f"{line}\n".encode())

    def leave(self) -> None:
        """Note its announced end, and release its connection to the launcher."""
        self.left = True
        while self._launcher:
            os.close(self._launcher.pop())

    def close(self) -> None:
        """Close all but a lost rank's connection to the launcher."""
        self.connection.close()
        if self.process is not None:
            self.process.close()


def keep_asking(connection: socket.socket, seconds: float, *, first: bool) -> None:
    """Let a TCP connection end with an error before the other end was silent for long.

    Parameters
    ----------
    seconds : how long is too long; at least 5, for the probes are whole seconds apart; infinite
        for never.

    References
    ----------
    tcp(7): TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT. RFC 5482, TCP User Timeout Option.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if math.isinf(seconds):
        return
    seconds = min(seconds, _LONGEST_WAIT)
    interval = min(max(1, int(seconds / _PROBES)), _LONGEST_INTERVAL)
    wait = seconds - (3 if first else 1) * interval  # the system looks once an interval
    values = {
        "TCP_KEEPIDLE": interval,
        "TCP_KEEPALIVE": interval,  # what macOS calls it
        "TCP_KEEPINTVL": interval,
        # Takes the place of the number of probes where the system has it, and holds for what was
        # sent and not acknowledged as well.
        "TCP_KEEPCNT": min(max(1, int(wait / interval)), 127),
        "TCP_USER_TIMEOUT": int(1000 * wait),
    }
    for name, value in values.items():
        with contextlib.suppress(OSError, AttributeError):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
