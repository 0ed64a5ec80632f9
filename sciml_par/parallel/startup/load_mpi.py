"""Load MPI, and start it where this process is a rank and nobody has started it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.supervision.forked_child import (
    finalize_at_the_end,
    finalize_mpi_in_the_rank_only,
)

_MARK = "SCIML_PAR_RANK_PROCESS"
"""Tells the programs that a rank starts whose place they inherit: "<place> <process> <rank>"."""

_CLOSED = "closed"


def mpi_has_started() -> bool:
    """Return whether the program has started MPI."""
    return "mpi4py.MPI" in sys.modules and sys.modules["mpi4py.MPI"].Is_initialized()


def load_mpi(environment: MutableMapping[str, str]) -> Any:
    """Return mpi4py's MPI, which has started (collective)."""
    if not mpi_has_started():
        _check_is_rank(environment)
    try:
        finalize_mpi_in_the_rank_only()
        from mpi4py import MPI
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
    if not MPI.Is_initialized():  # the program has set mpi4py.rc.initialize = False
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        finalize_at_the_end()
    place = _place(environment)
    if place is not None:
        environment[_MARK] = f"{place} {os.getpid()} {MPI.COMM_WORLD.Get_rank()}"
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
