"""Ranks fail together: an error that leaves the program ends the job, and is told once."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Failed, Mailbox
from sciml_par.parallel.requests.mismatch import rank_list
from sciml_par.parallel.supervision.watchdog import write_error

_GRACE_SECONDS = 1.0
_KILL_SECONDS = 5.0

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], None]


class FailureReporter:
    """Reports the errors of one rank in step with the others.

    Parameters
    ----------
    communicator : the world.
    mailbox : how ranks tell each other that they fail.
    """

    def __init__(self, communicator: Communicator, mailbox: Mailbox) -> None:
        self._communicator = communicator
        self._mailbox = mailbox
        self._previous_hook: ExceptHook | None = None
        self._process = os.getpid()

    def install(self) -> None:
        """Take over the report of uncaught exceptions (local)."""
        self._previous_hook = sys.excepthook
        sys.excepthook = self._hook

    def uninstall(self) -> None:
        """Give it back (local)."""
        if self._previous_hook is not None and sys.excepthook == self._hook:
            sys.excepthook = self._previous_hook

    def report(self, error: BaseException, text: str, *, exit_code: int = 1) -> None:
        """Print `text` once however many ranks fail with the same error (local, waits ≤ 1 s).

        Returns where every rank failed, so that each can end by itself; otherwise the ranks that
        are still at work are ended with `exit_code`.
        """
        key = f"{type(error).__name__}: {error}"
        failed = self._collect(Failed(key, text))
        everyone = len(failed) == self._communicator.size
        if self._communicator.rank == min(failed):
            _print_reports(failed, self._communicator.size)
        elif not everyone:
            time.sleep(_KILL_SECONDS)
        if not everyone:
            end_processes(self._communicator, exit_code)

    def _collect(self, mine: Failed) -> dict[int, Failed]:
        """Who fails as well, given a moment: {rank: what it says}."""
        self._mailbox.send(mine)
        deadline = time.monotonic() + _GRACE_SECONDS
        while len(self._mailbox.failed) < self._communicator.size - 1:
            if time.monotonic() > deadline:
                break
            self._mailbox.poll()
            time.sleep(0.01)
        return dict(sorted({**self._mailbox.failed, self._communicator.rank: mine}.items()))

    def _hook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        # An error of a child made by a fork is no error of the rank.
        not_ours = issubclass(kind, KeyboardInterrupt) or os.getpid() != self._process
        if not_ours and self._previous_hook is not None:
            self._previous_hook(kind, error, trace)
            return
        self.report(error, "".join(traceback.format_exception(kind, error, trace)).rstrip())


def _print_reports(failed: dict[int, Failed], size: int) -> None:
    by_key: dict[str, list[int]] = {}
    for rank, failure in failed.items():
        by_key.setdefault(failure.key, []).append(rank)
    sys.stdout.flush()
    for ranks in by_key.values():
        text = failed[ranks[0]].text
        if len(ranks) < size:
            host = f" on {socket.gethostname()}" if len(ranks) == 1 else ""
            write_error(f"{rank_list(ranks)} of {size}{host} failed; the job ends.\n{text}")
        else:
            os.write(2, f"{text}\n".encode())


def end_job(communicator: Communicator, message: str) -> None:
    """Say `message` and end every rank of the job, from any thread (local; does not return)."""
    write_error(f"{message}\nsciml_par: the job ends.")
    end_processes(communicator, 1)


def abort_gpus(communicator: Communicator) -> None:
    """End what the GPU is doing for the world's groups, should it wait for other ranks (local)."""
    for group in communicator.all_groups:
        if group.nccl_transport is not None:
            group.nccl_transport.abort()


def end_processes(communicator: Communicator, exit_code: int) -> None:
    """End every rank of the job, from any thread (local; does not return)."""
    if communicator.sentinel is not None:
        communicator.sentinel.said()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    # MPI_Abort may wait for a lock that another thread holds; the launcher ends the job as well
    # when a rank is gone without MPI_Finalize.
    fallback = threading.Timer(_KILL_SECONDS, os._exit, args=(exit_code,))
    fallback.daemon = True
    fallback.start()
    with contextlib.suppress(Exception):
        abort_gpus(communicator)
    # Everything has been said; MPI's own lines about MPI_Abort would only bury it.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    communicator.mpi.Abort(exit_code)
    os._exit(exit_code)
