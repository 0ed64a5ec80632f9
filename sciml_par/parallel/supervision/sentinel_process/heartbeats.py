"""Heartbeats between hosts: the kernel asks the other one's whether it is still there.

TCP's own probes (keepalive) do it. They are sent and answered by the kernels, so a sentinel that is
stopped, or waits for a core on a machine under load, is not taken for a lost host, and time in
which a machine sleeps does not count. The system that hears nothing for so long ends the
connection with an error.
"""

from __future__ import annotations

import contextlib
import math
import socket

_PROBES = 10
"""How many are sent in the time that is allowed: some may be lost on a bad link."""

_LONGEST_INTERVAL = 30
_LONGEST_WAIT = 10**6


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
