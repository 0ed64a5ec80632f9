"""Find and end the launcher's processes on this host, if they would fail.

MPICH's `mpirun` waits for the exit codes of all hosts, and a lost host sends none. If one rank has
ended with exit code 0, and each of the others runs in a shell, it returns 0 if it kills the shells
before they return their ranks' codes.
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
"""The beginnings of the commands that start a job in MPICH and Open MPI, and of their helpers."""

_SECONDS_TO_END = 3.0
_SECONDS_TO_DIE = 1.0


def launchers_of(pid: int, root: Path = Path("/proc")) -> list[int]:
    """Return the launcher's processes above this one, up to the user's command.

    Schedulers' processes are not included: they belong to another user and notice a lost host.
    """
    found = []
    for process, command in _with_ancestors(pid, root):
        if command.startswith((*_STARTERS, *_HELPERS)):
            found.append(process)
        if command.startswith(_STARTERS):
            break
    return found


def starter_of_wrapped(pid: int, root: Path = Path("/proc")) -> int | None:
    """Return the user's `mpirun`, if it has started a rank by another program, such as a shell.

    None if the rank is a child of the launcher's own process, or `mpirun` is on another host.
    """
    _, *above = _with_ancestors(pid, root) or [(pid, "")]
    if not above or above[0][1].startswith((*_STARTERS, *_HELPERS)):
        return None
    return next((each for each, command in above if command.startswith(_STARTERS)), None)


def _with_ancestors(pid: int, root: Path) -> list[tuple[int, str]]:
    """Return (process, command) of this process, its parent, and so on."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1:
            name, _, fields = (root / str(pid) / "stat").read_text().rpartition(")")
            found.append((pid, name.partition("(")[2]))
            pid = int(fields.split()[1])
    return found


def end_launchers(processes: Sequence[RankProcess]) -> None:
    """Wait for the processes to end, and then end them (waits ≤ 5 s)."""
    waits = ((None, _SECONDS_TO_END), (signal.SIGTERM, _SECONDS_TO_DIE), (signal.SIGKILL, 0.0))
    for number, seconds in waits:
        limit = time.monotonic() + seconds
        for process in processes:
            if number is not None and not process.has_ended(0.0):
                process.send_signal(number)
        if all([process.has_ended(limit - time.monotonic()) for process in processes]):  # noqa: C419
            return
