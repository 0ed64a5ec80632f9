"""The sentinel's messages."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Sequence


def ending(status: int | None, kills: int) -> str:
    """Return how a process ended by its wait status; `kills` were killed for lack of memory."""
    if status is None:
        return "is gone: it was killed, or left by os._exit; the exit status is unknown."
    number = status & 0x7F
    if number == 0:
        code = status >> 8
        return (
            f"left with exit code {code} past the end of the program (os._exit, or a library that "
            f"ends the process) while other ranks were still running."
        )
    try:
        name = f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGTERM:
        return f"was ended by {name}, sent by a user, the launcher or the scheduler."
    if number == signal.SIGKILL and kills > 0:
        return (
            f"was killed by {name}. The kernel killed {kills} process(es) of this host for lack "
            f"of memory meanwhile: start fewer ranks per host, or use less memory in each."
        )
    return f"was killed by {name}."


def oom_kills() -> int:
    """Return the number of processes that this host's kernel killed for lack of memory, or 0."""
    with contextlib.suppress(OSError), open("/proc/vmstat", "rb") as file:
        for line in file:
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def host_and_ranks(host: str, ranks: Sequence[int]) -> str:
    """Return "host node7 (ranks 4–7)"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    listed = ", ".join("–".join(map(str, run)) for run in runs)
    return f"host {host} (rank{'s' if len(ranks) > 1 else ''} {listed})"


def loss(who: str, here: str, seconds: float, error: OSError) -> str:
    """Return the message that a host is lost."""
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return (
            f"sciml_par: {who} has broken off its connection to {here}: it has restarted, or heard "
            f"nothing from {here} for {seconds:g} s.\nsciml_par: the job ends.\n"
        )
    return (
        f"sciml_par: {who} has not answered {here} for {seconds:g} s: it is down, or the network "
        f"between them is ({os.strerror(error.errno or errno.ETIMEDOUT)}).\n"
        f"sciml_par: the job ends.\n"
    )


def missing(hosts: Sequence[tuple[str, Sequence[int]]], places: Sequence[str]) -> str:
    """Return the warning that the sentinels of these hosts did not connect to these places."""
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    where = f"{' or '.join(places)}; is there a firewall?" if places else "that of rank 0."
    return (
        f"sciml_par: warning: {host_and_ranks(*hosts[0])}{more} could not open a TCP connection to "
        f"{where} The job continues, but a loss of a host or the network will not be noticed. "
        f"SCIML_PAR_INTERFACE names the network interface to use.\n"
    )


def unwatched(who: str) -> str:
    """Return the warning that another host's sentinel has ended before its ranks."""
    return (
        f"sciml_par: warning: the process that watches {who} has ended. The job continues, "
        f"but a loss of this host or the network to it will not be noticed.\n"
    )


def write(text: str) -> None:
    """Write to standard error in one piece, if it is still open."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
