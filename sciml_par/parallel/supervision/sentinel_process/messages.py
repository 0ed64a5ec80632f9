"""What the sentinel says, in words."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Sequence


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


def host_and_ranks(host: str, ranks: Sequence[int]) -> str:
    """As in "host node7 (ranks 4–7)"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    listed = ", ".join("–".join(map(str, run)) for run in runs)
    return f"host {host} (rank{'s' if len(ranks) > 1 else ''} {listed})"


def loss(who: str, here: str, seconds: float, error: OSError) -> str:
    """Why a host is thought to be lost, for the user."""
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return (
            f"sciml_par: {who} has broken off its connection to {here}: it has restarted, or heard "
            f"nothing from {here} for {seconds:g} s.\nsciml_par: the job ends."
        )
    return (
        f"sciml_par: {who} has not answered {here} for {seconds:g} s: it is down, or the network "
        f"between them is ({os.strerror(error.errno or errno.ETIMEDOUT)}).\n"
        f"sciml_par: the job ends."
    )


def missing(hosts: Sequence[tuple[str, Sequence[int]]], places: Sequence[str]) -> str:
    """That the sentinels of these hosts did not report at these places, for the user."""
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    where = f"{' or '.join(places)}; is there a firewall?" if places else "that of rank 0."
    return (
        f"sciml_par: warning: {host_and_ranks(*hosts[0])}{more} could not open a TCP connection to "
        f"{where} The job goes on, but nobody will notice if a host or the network is lost. "
        f"SCIML_PAR_INTERFACE names the network interface to use.\n"
    )


def unwatched(who: str) -> str:
    """That another host's sentinel has ended before its ranks, for the user."""
    return (
        f"sciml_par: warning: the process that watches over {who} has ended. The job goes on, but "
        f"nobody will notice that this host or the network to it is lost.\n"
    )


def write(text: str) -> None:
    """Write to standard error in one piece, if anybody still reads it."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
