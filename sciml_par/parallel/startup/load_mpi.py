"""Load MPI, and start it if this process is a rank and the program has not started it."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Mapping, MutableMapping
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.supervision.forked_child import finalize, finalize_mpi_in_the_rank_only

_MARK = "SCIML_PAR_RANK_PROCESS"
"""Tells the programs that a rank starts whose place they inherit: "<place> <process> <rank>"."""

_CLOSED = "closed"

_LONGEST = 600.0
"""Seconds after which a start of MPI ends the process. Imports on other ranks may take minutes."""

_STDERR = 2


def load_mpi(environment: MutableMapping[str, str], *, limit: float = _LONGEST) -> Any:
    """Return mpi4py's MPI after its start, which may take `limit` ≤ 600 seconds (collective)."""
    loaded: Any = sys.modules.get("mpi4py.MPI")
    has_started = loaded is not None and loaded.Is_initialized()
    if not has_started:
        _check_is_rank(environment)
    try:
        finalize_mpi_in_the_rank_only()
        MPI = loaded if has_started else _wait_until_all_ranks_call_init(min(limit, _LONGEST))
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            "no MPI library was found: install one with pip install 'sciml-par[mpich]', or load "
            f"your cluster's MPI module ({reason})."
        ) from None
    if MPI.Is_finalized():
        raise InputError(
            "init: MPI was finalized in this process, and cannot start again. Call MPI.Finalize "
            "after the last collective."
        )
    place = _place(environment)
    if place is not None:
        environment[_MARK] = f"{place} {os.getpid()} {MPI.COMM_WORLD.Get_rank()}"
    return MPI


def _wait_until_all_ranks_call_init(limit: float) -> Any:
    """Import mpi4py's MPI, which starts MPI, or end the process after `limit` seconds.

    MPI waits for all ranks, and some launchers do not notice that one has ended before. mpi4py
    holds the interpreter's lock meanwhile: only faulthandler can act, which prints the name of
    this function, and Ctrl-C needs the system's default handler.
    """
    here = threading.current_thread() is threading.main_thread()
    interruptible = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    faulthandler.dump_traceback_later(limit, exit=True, file=_STDERR)
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from mpi4py import MPI

        if not MPI.Is_initialized():  # the program has set mpi4py.rc.initialize = False
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
            atexit.register(finalize, os.getpid())
    finally:
        faulthandler.cancel_dump_traceback_later()
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    return MPI


def _check_is_rank(environment: Mapping[str, str]) -> None:
    """Raise `InputError` in a program that a rank has started, where MPI would end or wait."""
    place = _place(environment)
    taken, process, rank = environment.get(_MARK, "- - -").split()
    if place is None or (place not in (taken, _CLOSED)) or process == str(os.getpid()):
        return
    starter = f"rank {rank}" if rank != "-" else "another program"
    raise InputError(
        f"init: expected a process that the launcher has started; got process {os.getpid()}, which "
        f"{starter} has started. To run a program on one rank from here, start it without the "
        f"launcher's variables: subprocess.run(command, env={{k: v for k, v in os.environ.items() "
        f"if not k.startswith(('PMI', 'OMPI_', 'PRTE_'))}})."
    )


def _place(environment: Mapping[str, str]) -> str | None:
    """Return what the launcher has given to one rank alone; None without a launcher."""
    with contextlib.suppress(KeyError, ValueError):
        try:
            connection = os.fstat(int(environment["PMI_FD"]))
        except OSError:
            return _CLOSED
        return f"{connection.st_dev}:{connection.st_ino}"
    with contextlib.suppress(KeyError):
        return f"{environment['PMIX_NAMESPACE']}:{environment['PMIX_RANK']}".replace(" ", "_")
    return None
