"""Report an uncaught error once for all ranks, and end the job."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType

from sciml_par._stderr import write_error
from sciml_par._text import rank_list, ranks_by
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Failed, Mailbox
from sciml_par.parallel.native.interrupts import take
from sciml_par.parallel.requests.signature import MISMATCH
from sciml_par.parallel.supervision.end_job import JobEnd

_GRACE_SECONDS = 1.0
_SECONDS_TO_REPORT = 5.0

_OF_FOREIGN_CODE = ("FailedPreconditionError", "TransferError")
"""The errors that foreign code makes of a SystemExit."""

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], None]


class FailureReporter:
    """Reports the errors of one rank in step with the others, uncaught ones from now on."""

    def __init__(self, communicator: Communicator, mailbox: Mailbox, job_end: JobEnd) -> None:
        self._communicator = communicator
        self._mailbox = mailbox
        self._job_end = job_end
        self._process = os.getpid()
        self._previous_hook: ExceptHook = sys.excepthook
        sys.excepthook = self._hook

    def stop(self) -> None:
        """Restore the previous hook."""
        if sys.excepthook == self._hook:
            sys.excepthook = self._previous_hook

    def report(self, error: BaseException, text: str, *, exit_code: int = 1) -> None:
        """Print `text` once for all ranks that fail alike (waits ≤ 1 s), and end the others."""
        found = MISMATCH.search(str(error))
        key = found.group() if found else f"{type(error).__name__}: {error}"
        mine = Failed(key, text)
        self._mailbox.send(mine)
        deadline = time.monotonic() + _GRACE_SECONDS
        size = self._communicator.size
        while len(self._mailbox.failed) < size - 1:
            if time.monotonic() > deadline:
                break
            self._mailbox.poll()
            time.sleep(0.01)
        failed = dict(sorted({**self._mailbox.failed, self._communicator.rank: mine}.items()))
        everyone = len(failed) == size
        if self._communicator.rank == min(failed):
            sys.stdout.flush()
            keys = ((rank, failure.key) for rank, failure in failed.items())
            for ranks in ranks_by(keys).values():
                said = failed[ranks[0]].text
                if len(ranks) < size:
                    host = f" on {socket.gethostname()}" if len(ranks) == 1 else ""
                    write_error(f"{rank_list(ranks)} of {size}{host} failed; the job ends.\n{said}")
                else:
                    os.write(2, f"{said}\n".encode(errors="backslashreplace"))
        elif not everyone:
            time.sleep(_SECONDS_TO_REPORT)
        if not everyone:
            self._job_end.with_code(exit_code)

    def _hook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        # An error of a child made by a fork is no error of the rank.
        if issubclass(kind, KeyboardInterrupt) or os.getpid() != self._process:
            self._previous_hook(kind, error, trace)
            return
        ended = take()
        if isinstance(ended, SystemExit) and kind.__name__ in _OF_FOREIGN_CODE:
            raise ended
        self.report(error, "".join(traceback.format_exception(kind, error, trace)).rstrip())
