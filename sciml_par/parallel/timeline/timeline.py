"""A record of all collectives of all ranks, as a file that ui.perfetto.dev draws."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.groups.mailbox import Events
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.supervision.thread_errors import ThreadErrors
from sciml_par.parallel.supervision.watchdog import write_error
from sciml_par.parallel.timeline.chrome_trace import Trace
from sciml_par.parallel.timeline.clock_offsets import clock_offsets
from sciml_par.parallel.timeline.json_array_file import TraceFile
from sciml_par.parallel.timeline.recorder import Recorder

if TYPE_CHECKING:
    from sciml_par.parallel.groups.world import World

_INTERVAL_SECONDS = 0.5
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.005
# Short messages go through without the other side's help.
_ROWS_A_MESSAGE = 200


def start_timeline(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Record every collective of every rank in a file, from now on (collective).

    The file is a JSON array in Chrome's trace format, written by rank 0 twice a second; open it
    at https://ui.perfetto.dev. It is complete whenever the program ends, even by a signal.
    docs/timeline.md shows how to read it.

    Parameters
    ----------
    path : the file, as rank 0 has it; the other ranks' `path` is not looked at.
    overwrite : replace a file that is there.

    Raises
    ------
    InputError
        A timeline is being recorded already.
    OutputError
        The file is there and `overwrite` is false, or it cannot be written.
    """
    world = current_world()
    if world.timeline is not None:
        raise InputError(
            "start_timeline: a timeline is being recorded already; call stop_timeline() first."
        )
    communicator = world.communicator
    files: list[TraceFile] = []
    communicator.on_root(
        lambda: files.append(TraceFile(Path(os.fspath(path)), overwrite=overwrite))
    )
    names = communicator.allgather_object(socket.gethostname())
    offsets = clock_offsets(communicator.control, world.hosts)
    origin = communicator.broadcast_object(Recorder.now())
    writer = _Writer(files[0], Trace(origin, offsets), names) if files else None
    world.timeline = Timeline(world, origin, writer)
    world.timeline.start()


def stop_timeline() -> None:
    """Write what is left of the timeline and end it (collective). Without one it does nothing.

    Raises
    ------
    OutputError
        The file could not be written; it holds what was written before.
    """
    world = current_world()
    timeline = world.timeline
    if timeline is None:
        return
    timeline.stop()
    world.timeline = None
    world.communicator.on_root(timeline.check)


class Timeline:
    """One rank's part in the recording of a timeline.

    Other ranks ship their events to rank 0, which writes them. A thread does so beside the
    program; where MPI may not be called from two threads, everything is kept for the end.

    Parameters
    ----------
    world : the ranks.
    number : which timeline it is, the same on all ranks.
    writer : the file; None on other ranks than 0.
    """

    def __init__(self, world: World, number: int, writer: _Writer | None) -> None:
        self._communicator = world.communicator
        self._mailbox = world.mailbox
        self._number = number
        self._writer = writer
        self._recorder = Recorder()
        self._ended: set[int] = set()
        self._stopped = threading.Event()
        self._errors = ThreadErrors("the timeline", world.communicator.rank, write_error)
        self._thread: threading.Thread | None = None
        if world.watchdog is not None or world.communicator.size == 1:
            self._thread = threading.Thread(
                target=self._run, name="sciml_par timeline", daemon=True
            )

    def start(self) -> None:
        """Begin to record (local)."""
        for group in self._communicator.all_groups:
            group.recorder = self._recorder
        if self._thread is not None:
            self._thread.start()

    def stop(self) -> None:
        """Record no more, and bring what there is to rank 0 (local; waits ≤ 5 s for it)."""
        for group in self._communicator.all_groups:
            group.recorder = None
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=_PATIENCE_SECONDS)
            if self._thread.is_alive():
                return  # the disk or MPI stands still, and two may not write
        if self._writer is None:
            self._ship(last=True)
            _wait(lambda: not self._mailbox.shipping())
        else:
            self._write_the_rest(self._writer)

    def check(self) -> None:
        """Raise the `OutputError` that the file has met, if any (local)."""
        if self._writer is not None and self._writer.error is not None:
            raise self._writer.error

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECONDS):
            with self._errors.told_once():
                if self._writer is not None:
                    self._write(self._writer)
                elif not self._mailbox.shipping():
                    self._ship()

    def _ship(self, *, last: bool = False) -> None:
        # Not one row more than there are now, or a busy program would never let it end.
        for _ in range(1 + len(self._recorder) // _ROWS_A_MESSAGE):
            kinds, rows = self._recorder.drain(_ROWS_A_MESSAGE)
            dropped = self._recorder.dropped()
            if rows or dropped:
                self._mailbox.ship(Events(self._number, kinds, rows, dropped, last=False), 0)
        if last:
            self._mailbox.ship(Events(self._number, {}, (), 0, last=True), 0)

    def _write(self, writer: _Writer) -> None:
        kinds, rows = self._recorder.drain()
        own = Events(self._number, kinds, rows, self._recorder.dropped(), last=False)
        writer.write([(0, own), *self._arrived()])

    def _arrived(self) -> Iterator[tuple[int, Events]]:
        if self._communicator.size > 1:
            self._mailbox.poll()
        while self._mailbox.events:
            rank, events = self._mailbox.events.popleft()
            if events.timeline == self._number:
                if events.last:
                    self._ended.add(rank)
                yield rank, events

    def _write_the_rest(self, writer: _Writer) -> None:
        def complete() -> bool:
            self._write(writer)
            return len(self._ended | self._mailbox.left.keys()) >= self._communicator.size - 1

        _wait(complete)
        writer.finish(Recorder.now())


class _Writer:
    """Rank 0's file: what ranks tell goes in, matched, and what is missing is said.

    Attributes
    ----------
    error : what the file has met; nothing is written after it.
    """

    def __init__(self, file: TraceFile, trace: Trace, hosts: list[str]) -> None:
        self._file = file
        self._trace = trace
        self._dropped: Counter[int] = Counter()
        self.error: OutputError | None = None
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        start = trace.mark("timeline begins", trace.origin, {"time": began})
        self._append([*trace.head(hosts), start])

    def write(self, told: Iterable[tuple[int, Events]]) -> None:
        """Write what the ranks' messages complete."""
        lines: list[str] = []
        for rank, events in told:
            self._dropped[rank] += events.dropped
            lines.extend(self._trace.add(rank, events.kinds, events.rows))
        self._append(lines)

    def finish(self, now: int) -> None:
        """Write what remains, say what is missing, and close the file."""
        self._append(self._trace.rest())
        dropped = {f"rank {rank}": n for rank, n in sorted(self._dropped.items()) if n}
        missing = {"dropped": dropped, "unmatched": self._trace.unmatched}
        self._append([self._trace.mark("timeline ends", now, missing)])
        self._file.close()
        if dropped:
            write_error(
                f"warning: the timeline {self._file.path} lacks collectives that came too fast to "
                f"be written: {', '.join(f'{n} of {rank}' for rank, n in dropped.items())}."
            )

    def _append(self, lines: Iterable[str]) -> None:
        if self.error is not None:
            return
        try:
            self._file.append(lines)
        except OutputError as error:
            self.error = error
            write_error(f"warning: {error} The program goes on without it.")


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not done() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
