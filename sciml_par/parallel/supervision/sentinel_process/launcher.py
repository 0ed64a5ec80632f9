"""The launcher's processes on this host, which wait for a lost host for ever.

MPICH's `mpirun` awaits the exit codes from all hosts, and a host that is lost sends none.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from .rank_process import RankProcess

_STARTERS = ("mpirun", "mpiexec", "prterun", "orterun")
_HELPERS = ("hydra_", "prted", "orted")
"""How the commands begin that MPICH and Open MPI start a job by, and their parts on each host."""

_SECONDS_TO_END = 3.0
_SECONDS_TO_DIE = 1.0


def launchers_of(pid: int, root: Path = Path("/proc")) -> list[int]:
    """The launcher's processes above this one, from its own up to the command of the user.

    Schedulers' own are not among them: they belong to another user and notice a lost host.
    """
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1:
            name, _, fields = (root / str(pid) / "stat").read_text().rpartition(")")
            command = name.partition("(")[2]
            if command.startswith((*_STARTERS, *_HELPERS)):
                found.append(pid)
            if command.startswith(_STARTERS):
                break
            pid = int(fields.split()[1])
    return found


def end_launchers(processes: Sequence[RankProcess]) -> None:
    """Give them a moment to end by themselves, and then end them (waits ≤ 5 s)."""
    waits = ((None, _SECONDS_TO_END), (signal.SIGTERM, _SECONDS_TO_DIE), (signal.SIGKILL, 0.0))
    for number, seconds in waits:
        limit = time.monotonic() + seconds
        for process in processes:
            if number is not None and not process.has_ended(0.0):
                process.send_signal(number)
        if all([process.has_ended(limit - time.monotonic()) for process in processes]):  # noqa: C419
            return
