"""Report a start of MPI that waits for a rank.

A rank that ends before `init` is missed by some launchers, and MPI then waits for it for ever.
mpi4py holds the interpreter's lock meanwhile, so a child process keeps the time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import NoReturn

from sciml_par._stderr import write_error
from sciml_par.parallel.startup.load_mpi import mpi_has_started
from sciml_par.parallel.supervision.watchdog import Patience

_RANKS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
"""The variables in which launchers give a process its number and the number of ranks."""

_LONGEST = 600.0
"""Seconds after which the job ends without a stall limit as well. Imports may take minutes."""

_SPEAK = 2
"""Number of ranks that warn, from 0 on: the missing rank may be rank 0."""


@contextlib.contextmanager
def watched_start(environment: Mapping[str, str], patience: Patience) -> Iterator[None]:
    """Warn if MPI, which starts within, waits long, and end the process at the stall limit."""
    rank = _rank_of_several(environment)
    if rank is None or environment.get("SCIML_PAR_SENTINEL") == "0" or mpi_has_started():
        yield
        return
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns where there are threads already; the child calls the system only.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _watch(reading, rank, patience)
    os.close(reading)
    try:
        with _ended_by_ctrl_c():
            yield
    finally:
        os.close(writing)  # which ends the child
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


@contextlib.contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let SIGINT end the process: Python cannot handle it while MPI starts."""
    handler = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or handler is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _rank_of_several(environment: Mapping[str, str]) -> int | None:
    """Return the number that the launcher gives this process, if there are others."""
    for rank, size in _RANKS:
        with contextlib.suppress(KeyError, ValueError):
            if int(environment[size]) > 1:
                return int(environment[rank])
    return None


def _watch(reading: int, rank: int, patience: Patience) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Otherwise the launcher would not see the rank close what it has open.
        os.closerange(3, reading)
        os.closerange(reading + 1, os.sysconf("SC_OPEN_MAX"))
        _keep_time(reading, rank, patience)
    finally:
        os._exit(0)


def _keep_time(reading: int, rank: int, patience: Patience) -> None:
    waits = "while MPI starts: at least one rank has not called init."
    warn, end = patience.warn_after, min(patience.end_after, _LONGEST)
    total = end
    if rank < _SPEAK and warn < end:
        if _is_over_within(warn, reading):
            return
        write_error(f"warning: rank {rank} has waited {warn:.0f} s {waits}")
        end -= warn
    if not _is_over_within(end, reading):
        write_error(f"rank {rank} has waited {total:.0f} s {waits}\nsciml_par: the job ends.")
        os.kill(os.getppid(), signal.SIGKILL)


def _is_over_within(seconds: float, reading: int) -> bool:
    timeout = None if seconds == float("inf") else seconds
    return bool(select.select([reading], [], [], timeout)[0])
