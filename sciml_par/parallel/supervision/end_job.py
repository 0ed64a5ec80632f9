"""End all ranks of the job."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from sciml_par._stderr import write_error
from sciml_par.parallel.groups.communicator import Communicator

_KILL_SECONDS = 5.0


class JobEnd:
    """Ends all ranks, from any thread."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self.sentinel: Any = None

    def with_message(self, message: str) -> None:
        """Print `message` and end every rank of the job (does not return)."""
        write_error(f"{message}\nsciml_par: the job ends.")
        self.with_code(1)

    def with_code(self, exit_code: int) -> None:
        """End every rank of the job (does not return)."""
        if self.sentinel is not None:
            self.sentinel.said()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        threads = threading.enumerate()
        # MPI_Abort may wait for a lock that another thread holds; the launcher ends the job as well
        # when a rank is gone without MPI_Finalize.
        fallback = threading.Timer(_KILL_SECONDS, os._exit, args=(exit_code,))
        fallback.daemon = True
        fallback.start()
        with contextlib.suppress(Exception):
            _stop(threads, exit_code)
            abort_gpus(self._communicator)
        # Everything has been said; MPI's own lines about MPI_Abort would only bury it.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self._communicator.mpi.Abort(exit_code)
        os._exit(exit_code)


def _stop(threads: Iterable[threading.Thread], exit_code: int) -> None:
    """Let these threads, except this one, run no further line of Python.

    What they wait for on the GPU ends when NCCL is aborted, as if it were done, with wrong numbers.
    """

    class JobEnded(SystemExit):
        def __init__(self) -> None:
            super().__init__(exit_code)

    for thread in threads:
        # A thread ends silently by SystemExit itself, but by no subclass.
        error = JobEnded if thread is threading.main_thread() else SystemExit
        if thread.ident is not None and thread.ident != threading.get_ident():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(error)
            )


def abort_gpus(communicator: Communicator) -> None:
    """Abort the GPU's collectives of all groups, which may wait for other ranks."""
    for group in communicator.all_groups:
        if group.nccl_transport is not None:
            group.nccl_transport.abort()
