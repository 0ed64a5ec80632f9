"""End the job at Ctrl-C while the main thread waits inside MPI or TensorFlow.

Python runs signals' handlers between its own instructions, so a rank that waits for others in a
call of C would not raise KeyboardInterrupt before they come. Python writes a signal's number to a
pipe at once, which a thread reads: if the rank still stands where it stood 0.3 s later, in a
collective, the job ends. Ranks that are interrupted together take turns, and the first of them to
report it tells the others, since a launcher may take a while to end them. The last turn comes soon
enough for the job to end within a second of the signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

from sciml_par._stderr import write_error
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.mailbox import Interrupted, Mailbox
from sciml_par.parallel.supervision.end_job import JobEnd

_SECONDS_TO_ACT = 0.3
_SECONDS_BETWEEN_RANKS = 0.05
_LAST_TURN = 4
_SECONDS_TO_END = 5.0
_INTERRUPTED = 128 + signal.SIGINT


def watch_for_ctrl_c(everyone: Communicator, mailbox: Mailbox, job_end: JobEnd) -> None:
    """Let Ctrl-C end waits in C as well, unless the program has a wake-up descriptor."""
    if threading.current_thread() is not threading.main_thread():
        return  # where Python lets nobody ask for them
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        return
    # A child would write its own signals there.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    arguments = (reading, everyone, mailbox, job_end)
    threading.Thread(target=_watch, args=arguments, name="sciml_par Ctrl-C", daemon=True).start()


def _watch(reading: int, everyone: Communicator, mailbox: Mailbox, job_end: JobEnd) -> None:
    while number := os.read(reading, 1):
        # Programs that handle it decide themselves, and so does `train`.
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if number[0] != signal.SIGINT or not is_default:
            continue
        before = _place(everyone)
        time.sleep(_SECONDS_TO_ACT)
        place = _place(everyone)
        waits = ((group, group.in_progress()) for group in list(everyone.all_groups))
        group, current = next((each for each in waits if each[1] is not None), (None, None))
        if group is None or current is None or place != before:
            continue
        time.sleep(_SECONDS_BETWEEN_RANKS * min(group.rank, _LAST_TURN))
        mailbox.poll()
        if mailbox.interrupted:
            time.sleep(_SECONDS_TO_END)
        else:
            mailbox.send(Interrupted())
            write_error(
                f"rank {group.rank} of «{group.name}» was interrupted (Ctrl-C, SIGINT) while it "
                f"waited in {current[1]}; the job ends."
            )
        job_end.with_code(_INTERRUPTED)


def _place(everyone: Communicator) -> tuple[Any, ...]:
    """Return the place of the main thread, and the numbers of this rank's collectives."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    numbers = [each.progress.sequence for each in list(everyone.all_groups)]
    return id(frame), frame and frame.f_lasti, numbers
