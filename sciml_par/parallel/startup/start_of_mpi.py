"""Says so when MPI waits, as it starts, for ranks that do not come.

A rank that ends before it has loaded MPI, by an error of an import or a file that one host lacks,
is not missed by MPICH's launcher, whatever its exit code: the others wait in MPI_Init for ever.
Open MPI's launcher ends the job, unless the exit code is 0. No thread of Python runs meanwhile,
since mpi4py holds the interpreter's lock, so a child process looks whether all ranks of the host
are there, and at the clock.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sciml_par._stderr import write_error
from sciml_par._text import rank_list
from sciml_par.parallel.startup.load_mpi import mpi_has_started
from sciml_par.parallel.startup.shared_memory_names import unlink_mapped_files
from sciml_par.parallel.supervision.watchdog import Patience

_RANKS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
"""Where launchers tell a process its number and how many there are."""

_LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
_PROXIES = ("hydra_pmi_proxy", "prterun", "prted", "mpirun", "mpiexec", "orterun", "orted")
"""What MPICH's and Open MPI's ranks of a host are children of."""

_LOOK_SECONDS = 0.5
_GONE_SECONDS = 2.0
"""How long a rank must be gone: the launcher may be about to end the job by itself."""

_SPEAK = 2
"""So many ranks, from 0 on, warn: the one that is missing may be rank 0."""


@contextlib.contextmanager
def watched_start(environment: Mapping[str, str], patience: Patience) -> Iterator[None]:
    """Within it MPI starts; a start that stands still is told, or ended as `patience` says.

    Without a launcher that says so there are no others, and nothing is watched; nor is it with
    SCIML_PAR_SENTINEL=0.
    """
    rank = rank_of_several(environment)
    off = environment.get("SCIML_PAR_SENTINEL", "") == "0" or mpi_has_started()
    if rank is None or off:
        yield
        return
    reading, writing = os.pipe()
    child = None
    with contextlib.suppress(OSError), warnings.catch_warnings():
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
        if child is not None:
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


def rank_of_several(environment: Mapping[str, str]) -> int | None:
    """This process's number as the launcher tells it, if there are others."""
    for rank, size in _RANKS:
        with contextlib.suppress(KeyError, ValueError):
            if int(environment[size]) > 1:
                return int(environment[rank])
    return None


def _watch(reading: int, rank: int, patience: Patience) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Or the launcher would not see what it has open with the rank close.
        os.closerange(3, reading)
        os.closerange(reading + 1, os.sysconf("SC_OPEN_MAX"))
        _tell_in_time(reading, rank, patience)
    finally:
        os._exit(0)


def _tell_in_time(reading: int, rank: int, patience: Patience) -> None:
    began, local = time.monotonic(), LocalRanks.of(os.getppid(), os.environ)
    gone_since, warned = None, False
    while not select.select([reading], [], [], _LOOK_SECONDS)[0]:
        now = time.monotonic()
        gone = local.gone() if local is not None else None
        gone_since = None if gone is None else gone_since or now
        if gone and gone_since is not None and now - gone_since > _GONE_SECONDS + 0.2 * rank:
            _end(
                f"{gone} ended before init, and rank {rank} waits for it while MPI starts: look "
                f"for its error above."
            )
            return
        seconds = now - began
        waits = (
            f"rank {rank} has waited {seconds:.0f} s for other ranks while MPI starts. One may "
            f"have ended before init, by an error that stands above, or not run at all."
        )
        if seconds > patience.end_after:
            _end(waits)
            return
        if seconds > patience.warn_after and not warned and rank < _SPEAK:
            write_error(f"warning: {waits}")
            warned = True


def _end(message: str) -> None:
    write_error(f"{message}\nsciml_par: the job ends.")
    unlink_mapped_files(os.getppid())  # MPI will not come to it
    os.kill(os.getppid(), signal.SIGKILL)


@dataclass(frozen=True)
class LocalRanks:
    """The ranks of a host as the launcher has started them: the children of its process there.

    Attributes
    ----------
    proxy : the process.
    started : how many there were.
    size : of the job.
    variable : which tells a rank its number.
    """

    proxy: int
    started: int
    size: int
    variable: bytes

    @classmethod
    def of(cls, rank: int, environment: Mapping[str, str]) -> LocalRanks | None:
        """Those beside the process of a rank; None under another launcher."""
        for (variable, size), local_size in zip(_RANKS, _LOCAL_SIZES, strict=True):
            with contextlib.suppress(OSError, KeyError, ValueError, IndexError):
                sizes = int(environment[local_size]), int(environment[size])
                return cls(_proxy_of(rank), *sizes, variable.encode())
        return None

    def gone(self) -> str | None:
        """Who of them has ended, in words; None if nobody has, or nobody knows."""
        try:
            text = Path(f"/proc/{self.proxy}/task/{self.proxy}/children").read_text()
            living = [int(each) for each in text.split()]
            living = [each for each in living if _stat(each)[0] not in "ZX"]
            ranks = [each for each in map(_variables, living) if self._may_be_rank(each)]
            return None if len(ranks) >= self.started else self._names(ranks)
        except (OSError, IndexError, ValueError):
            return None

    def _may_be_rank(self, variables: Mapping[bytes, bytes]) -> bool:
        """Return whether these are a rank's: Open MPI's launcher has its `ssh` among its children.

        A program that has changed its title may have overwritten what was there.
        """
        return self.variable in variables or b"PATH" not in variables

    def _names(self, living: Sequence[Mapping[bytes, bytes]]) -> str:
        numbers = {int(each[self.variable]) for each in living if self.variable in each}
        if self.started < self.size or len(numbers) < len(living):
            return f"a rank on {socket.gethostname()}"
        return rank_list([rank for rank in range(self.size) if rank not in numbers])


def _proxy_of(process: int) -> int:
    """Return the launcher's process on this host that has started this one."""
    # Between the two there may be a shell, or a debugger.
    while process > 1:
        process = int(_stat(process)[1])
        if Path(f"/proc/{process}/comm").read_text().strip() in _PROXIES:
            return process
    raise ProcessLookupError


def _variables(process: int) -> dict[bytes, bytes]:
    """Return the environment with which a process has begun."""
    pairs = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on: state, parent, …"""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
