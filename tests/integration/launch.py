"""Start programs in separate processes as a user does, and report how they end.

Most start with TensorFlow imported, which saves seconds a process; see fork_server.py. Tests of the
start itself use `fresh=True`, a new Python process.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900.0
"""How long a program may run: longer is a hang. On a slow and busy machine minutes are usual."""

# What `init` has set in this process (tests/conftest.py calls it), what the user has, and what a
# launcher tells its ranks: a program started from here must find none of them. The permissions
# that Open MPI asks for (root, more ranks than cores) stay.
_SET_BY_INIT = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_CPP_MIN_LOG_LEVEL",
    "MPIR_CVAR_SUPPRESS_ABORT_MESSAGE",
)
_PREFIXES = (
    "SCIML_PAR_",
    "PMI_",
    "PMIX_",
    "OMPI_COMM_",
    "HYDI_",
    "MPI_LOCAL",
    "HOROVOD_",
    "SLURM_STEP_",
    "SLURM_PROCID",
)

# Elsewhere a fork may not be safe, or there is no way to wait for several processes at once.
CAN_FORK = sys.platform == "linux"
_CLIENT = (sys.executable, "-IS", str(ROOT / "tests" / "integration" / "fork_client.py"))


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a program that has ended."""

    code: int
    out: str
    err: str

    def succeeded(self) -> Ended:
        """Return `self`, after checking for success without standard error."""
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        assert self.err == "", f"on standard error:\n{self.err}"
        return self


class Started:
    """A running program."""

    def __init__(self, process: subprocess.Popen[str], command: Sequence[str]) -> None:
        self.process = process
        self._command = command

    def end(self, seconds: float = SECONDS) -> Ended:
        """Wait for its end; after `seconds` kill it, with its ranks, and fail the test."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # a launcher ends its ranks when it is asked to end
            try:
                out, err = self.process.communicate(timeout=10.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                out, err = self.process.communicate()
            raise AssertionError(
                f"{' '.join(self._command)} was still at work after {seconds:g} s\n{out}\n{err}"
            ) from None
        # Open MPI's launcher sends the zero byte along with which its own texts end in memory.
        return Ended(self.process.returncode, out, err.replace("\0", ""))


def start(
    ranks: int | None,
    *arguments: str | Path,
    folder: Path,
    threads: int | None = None,
    fresh: bool = False,
) -> Started:
    """Start `python arguments...` in `folder`, under mpirun unless `ranks` is None.

    With `fresh`, or with `-c`, nothing is imported yet when it begins.
    """
    _heed_ctrl_c()
    launcher = [] if ranks is None else ["mpirun", "-np", str(ranks)]
    fresh = fresh or arguments[0] == "-c" or not CAN_FORK
    python = [sys.executable] if fresh else prepared_python()
    command = [*launcher, *python, *map(str, arguments)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(threads),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    return Started(process, command)


def launch(
    ranks: int | None,
    *arguments: str | Path,
    folder: Path,
    threads: int | None = None,
    fresh: bool = False,
) -> Ended:
    """Start `python arguments...` as `start` does, and wait for its end."""
    return start(ranks, *arguments, folder=folder, threads=threads, fresh=fresh).end()


def _heed_ctrl_c() -> None:
    """Let programs started from here end by Ctrl-C, as when a user starts them.

    A shell has the commands that it starts in the background, as `make test` starts these tests,
    ignore SIGINT, and so would all that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def prepared_python() -> list[str]:
    """Return a command that runs `python arguments...` in a process with TensorFlow imported."""
    return [*_CLIENT, _fork_server()]


@functools.cache
def _fork_server() -> str:
    """Return the socket name of a server that lives as long as this process."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")  # the kernel chooses a name, which is in no folder
    listener.listen(64)
    # It reads its standard input to see this process end.
    subprocess.Popen(
        [sys.executable, ROOT / "tests" / "integration" / "fork_server.py", str(listener.fileno())],
        env=environment(threads=1) | {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        start_new_session=True,  # a Ctrl-C is for the tests
    )
    return os.fsdecode(listener.getsockname()[1:])


def environment(threads: int | None) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _SET_BY_INIT and not name.startswith(_PREFIXES)
    }
    inherited["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    # A rank of a slow machine may wait long for another, which is nothing to warn about here.
    inherited["SCIML_PAR_STALL_WARNING"] = str(SECONDS)
    # Ranks beside other tests outnumber the cores: those that wait let the others compute. MPICH
    # and Open MPI read these; without them a rank that waits takes as much of a core as one that
    # works.
    inherited.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
    inherited.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if threads is not None:
        inherited["OMP_NUM_THREADS"] = str(threads)
    return inherited
