"""Cut a child made by a fork off from the job, of which it is not a part.

It has the rank's memory and open files, but not its threads. However it ends, it must neither send
messages to other ranks nor finalize MPI.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from sciml_par.errors import InputError
from sciml_par.parallel.groups.world import present_world


@lru_cache(maxsize=1)
def watch_for_forks() -> None:
    """Cut later children off from the current world (done once)."""
    os.register_at_fork(after_in_child=_cut_off)


def _cut_off() -> None:
    world = present_world()
    if world is None:
        return
    world.mailbox.silence()
    world.timeline = None
    for group in world.communicator.all_groups:
        group.progress.refuse_all(refuse)


def refuse(*_: Any) -> NoReturn:
    """Raise the error of a collective in a child."""
    raise InputError(
        f"A collective was called in process {os.getpid()}, a child made by a fork; only the rank "
        f"itself takes part in collectives. Let it call them, and give the child their results."
    )


def finalize_mpi_in_the_rank_only() -> None:
    """Keep a child that ends by `sys.exit`, an error or its last line from finalizing MPI.

    mpi4py finalizes MPI at the end of a child as well, which then waits for all ranks forever.
    mpi4py reads the option only when MPI is loaded, so call this before.
    """
    import mpi4py

    if mpi4py.rc.finalize is False:
        return  # we have been here, or the program finalizes MPI itself
    if "mpi4py.MPI" in sys.modules:
        _leave_early(os.getpid())
        return
    mpi4py.rc.finalize = False
    atexit.register(finalize, os.getpid())


def before_mpi_ends(*acts: Callable[[], None]) -> None:
    """Call `acts` when MPI is finalized, which the program may do itself, while MPI still works."""
    from mpi4py import MPI

    def delete(*_: Any) -> None:
        for act in acts:
            act()

    # MPI deletes the attributes of this communicator before it ends anything.
    MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=delete), None)
    _finalize_before_exit(os.getpid())


@lru_cache(maxsize=1)
def _finalize_before_exit(rank: int) -> None:
    """Let `os._exit(0)` of the rank's main thread finalize MPI, or launchers would end the job."""
    # Without a word MPICH's launcher kills ranks still at work; `MPI_Finalize` leaves it to a
    # handler of the C library, which `os._exit` skips. The number of a copy stays its own when the
    # program closes the socket and opens a file. Hydra, which sets the two variables, speaks in
    # lines (PMI-1).
    plain_exit, launcher = os._exit, None
    if "MPI_LOCALRANKID" in os.environ and (line := socket_of_the_launcher(os.environ)) is not None:
        launcher = os.dup(line)

    def leave(status: int) -> NoReturn:
        if status == 0 and threading.current_thread() is threading.main_thread():
            finalize(rank)
            if launcher is not None and os.getpid() == rank:
                with contextlib.suppress(OSError):
                    os.write(launcher, b"cmd=finalize\n")
                    select.select([launcher], [], [], 1.0)  # until it has answered, or has ended
        plain_exit(status)

    os._exit = leave


def socket_of_the_launcher(environment: Mapping[str, str]) -> int | None:
    """Return the socket on which MPICH's launcher waits to hear that MPI has ended, or None."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        number = int(environment["PMI_FD"])
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            return number
    return None


def finalize(rank: int) -> None:
    """Finalize MPI in the rank, not in a child that ends."""
    if os.getpid() != rank or "mpi4py.MPI" not in sys.modules:
        return  # in a child, or where no MPI could be loaded
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


@lru_cache(maxsize=1)
def _leave_early(rank: int) -> None:
    """End children before mpi4py would finalize MPI, if the program has loaded it."""
    codes = [0]

    def note_the_exit_code() -> None:
        plain_exit, plain_hook = sys.exit, sys.excepthook

        def exit_with(status: Any = None, /) -> NoReturn:
            codes[0] = 0 if status is None else status & 0xFF if isinstance(status, int) else 1
            plain_exit(status)

        def hook(*error: Any) -> None:
            codes[0] = 1
            plain_hook(*error)

        sys.exit, sys.excepthook = exit_with, hook

    def leave() -> None:
        if os.getpid() != rank:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(codes[0])

    os.register_at_fork(after_in_child=note_the_exit_code)
    atexit.register(leave)
