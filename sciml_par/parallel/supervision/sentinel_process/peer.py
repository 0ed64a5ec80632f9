"""The other end of a connection, which speaks in lines: a rank, or another host's sentinel."""

from __future__ import annotations

import contextlib
import os
import socket

from .rank_process import RankProcess

_LONGEST_LINE = 65536


class Peer:
    """The other end of a connection.

    Attributes
    ----------
    left : whether it has said that it goes.
    error : what has ended the connection, if the other end did not close it in order.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.left = False
        self.error: OSError | None = None
        self._unread = b""
        self._launcher: list[int] = []

    def read(self) -> tuple[list[str], bool]:
        """Return the lines that have come, and whether the other end is closed."""
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
        """It has said that it goes: from now on its end is the launcher's concern."""
        self.left = True
        while self._launcher:
            os.close(self._launcher.pop())

    def close(self) -> None:
        """Give up the connection, but not a lost rank's line to the launcher."""
        self.connection.close()


class RankPeer(Peer):
    """A rank of this host.

    Attributes
    ----------
    rank : its number, once it has said so.
    process : what can be known of its process, likewise.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.rank: int | None = None
        self.process: RankProcess | None = None

    def is_rank(self, rank: int, pid: int) -> None:
        """Take down who it is."""
        self.rank, self.process = rank, RankProcess(pid)

    def close(self) -> None:
        """Give up what is open for it, but for a lost rank's line to the launcher."""
        super().close()
        if self.process is not None:
            self.process.close()
