"""Signals that ask a training to stop: Ctrl-C, and what schedulers send."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

from sciml_par._stderr import write_error
from sciml_par._terminal import CellLine
from sciml_par.parallel.groups.world import World
from sciml_par.results.member import SIGNALS, WALL_TIME
from sciml_par.training.run.watcher import Watcher

_INTERRUPTED = 128 + signal.SIGINT
# A launcher and a terminal may both pass on one Ctrl-C.
_SECONDS_OF_ONE_CTRL_C = 0.3
_SECONDS_FOR_RANK_0 = 1.0
_END = b"\0"


class SignalWatcher(Watcher):
    """Ask all ranks to stop when this one has received a signal.

    outer : that of the call in which this one is, whose signals and time limit count as well.
    until : the time by `time.monotonic` from which it asks for the end.
    """

    def __init__(self, world: World, outer: Watcher | None = None, until: float = math.inf) -> None:
        self._world, self._outer, self._until = world, outer, until
        self._first: str | None = None
        self._interrupted = float("inf")

    def stop(self) -> str | None:
        outer = None if self._outer is None else self._outer.stop()
        late = WALL_TIME if time.monotonic() >= self._until else None
        return self._first or outer or late

    def received(self, number: int) -> None:
        """Take note of a signal.

        It does not return at a second Ctrl-C, which would take all variables from a notebook.
        """
        now = time.monotonic()
        again = number == signal.SIGINT and now - self._interrupted > _SECONDS_OF_ONE_CTRL_C
        if again and CellLine.of_notebook() is None:
            self._end_job()
        if number == signal.SIGINT:
            self._interrupted = min(self._interrupted, now)
        if self._first is None:
            self._first = signal.Signals(number).name

    def _end_job(self) -> None:
        # A launcher gives the signal to all ranks: one of them says so.
        if self._world.communicator.rank > 0:
            time.sleep(_SECONDS_FOR_RANK_0)
        write_error("interrupted a second time: the job ends at once.")
        self._world.job_end.with_code(_INTERRUPTED)


@contextlib.contextmanager
def signals_caught(world: World, *, until: float = math.inf) -> Iterator[SignalWatcher]:
    """Yield a watcher of the signals that this rank receives meanwhile.

    Only the main thread catches signals. Signals that the program ignores or handles are left to
    it.
    """
    key = f"signals in thread {threading.get_ident()}"
    outer = world.kept.get(key)
    world.kept[key] = SignalWatcher(world, outer, until)
    try:
        with _handlers(world.kept[key]):
            yield world.kept[key]
    finally:
        world.kept[key] = outer


@contextlib.contextmanager
def _handlers(watcher: SignalWatcher) -> Iterator[None]:
    here = threading.current_thread() is threading.main_thread()
    free = signal.SIG_DFL, signal.default_int_handler
    numbers = [getattr(signal, name) for name in SIGNALS if here]
    numbers = [number for number in numbers if signal.getsignal(number) in free]
    if not numbers:
        yield
        return
    # Python runs handlers between instructions, and a rank may be in a collective for long. The
    # number of a signal is written to a pipe at once, which a thread reads.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    thread = threading.Thread(
        target=_read, args=(reading, watcher, numbers), name="signals of sciml_par", daemon=True
    )
    thread.start()
    pipe_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # The pipe has the signal already when Python runs the handler.
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(pipe_before)
        os.write(writing, _END)
        thread.join()
        os.close(reading)
        os.close(writing)


def _read(pipe: int, watcher: SignalWatcher, numbers: Sequence[int]) -> None:
    while (number := os.read(pipe, 1)) != _END:
        if number[0] in numbers:  # those that the program handles are written there as well
            watcher.received(number[0])
