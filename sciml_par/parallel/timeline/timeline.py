"""A record of all collectives of all ranks, in a file that ui.perfetto.dev displays."""

from __future__ import annotations

import glob
import io
import os
import socket
import statistics
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sciml_par._stderr import ThreadErrors, write_error
from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.timeline.recorder import GroupRecorder, Recorder
from sciml_par.parallel.timeline.trace_file import OPENING, line, mark, merge, named

if TYPE_CHECKING:
    from sciml_par.parallel.groups.communicator import Communicator

_INTERVAL_SECONDS = 0.5
_ROUNDS = 20


def start_timeline(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Record every collective of every rank, from now on (collective).

    Twice a second each rank writes its records to a separate file, `path` + ".rank-0", ".rank-1",
    …. `stop_timeline`, or the end of the program, merges them to one JSON array in Chrome's trace
    format: open it at https://ui.perfetto.dev. See docs/performance.md.

    Parameters
    ----------
    path : the file. The value of rank 0 is used.
    overwrite : replace existing files.

    Raises
    ------
    InputError
        A timeline is already being recorded.
    OutputError
        The file, or that of a rank, exists and `overwrite` is false, or it cannot be written.
    """
    world = current_world()
    if world.timeline is not None:
        raise InputError(
            "start_timeline: a timeline is already being recorded; call stop_timeline() first."
        )
    everyone = world.communicator
    path = Path(everyone.broadcast_object(os.path.abspath(path) if everyone.rank == 0 else ""))
    everyone.on_root(lambda: _make_room(path, overwrite=overwrite))
    part = everyone.attempt(lambda: _open_part(path, everyone.rank))
    begin = _begin(everyone, world.hosts)
    recorder = Recorder(part, everyone.rank, origin=begin)
    recorder.append(OPENING)
    if everyone.rank == 0:
        began = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        recorder.append(line(mark("timeline begins", 0.0, began)))
    name = f"rank {everyone.rank} on {socket.gethostname()}"
    recorder.append("".join(map(line, named("process", everyone.rank, name))))
    world.timeline = Timeline(everyone, path, part, recorder, begin)


def stop_timeline() -> None:
    """Stop recording, and merge the records of all ranks to one file (collective).

    Without a timeline it does nothing.

    Raises
    ------
    OutputError
        A file cannot be written; the ranks' files stay.
    """
    world = current_world()
    timeline, world.timeline = world.timeline, None
    if timeline is None:
        return
    timeline.stop()
    world.communicator.barrier()  # `merge` waits unwatched, so all ranks must be here
    problem = timeline.merge()
    if problem is not None:
        raise OutputError(problem)


class Timeline:
    """Records the timeline of one rank, from its creation on."""

    def __init__(
        self, everyone: Communicator, path: Path, part: io.FileIO, recorder: Recorder, begin: int
    ) -> None:
        self._everyone = everyone
        # At the end of the program another rank may still call a collective, which must not meet
        # the messages of the merge.
        self._control = everyone.control.Dup()
        self._path = path
        self._part = part
        self._recorder = recorder
        self._begin = self._end = begin
        self._stopped = threading.Event()
        self._errors = ThreadErrors("the timeline", everyone.rank, write_error)
        self._thread = threading.Thread(
            target=self._write_now_and_then, name="sciml_par timeline", daemon=True
        )
        for group in everyone.all_groups:
            group.progress.observe(GroupRecorder(recorder, group))
        self._thread.start()

    def stop(self) -> None:
        """Stop recording, and write the remaining records to this rank's file."""
        for group in self._everyone.all_groups:
            for observer in group.progress.observers:
                if isinstance(observer, GroupRecorder):
                    group.progress.forget(observer)
        self._end = Recorder.now()
        self._stopped.set()
        self._thread.join()
        self._recorder.write()
        self._part.close()

    def merge(self) -> str | None:
        """Merge the records of all ranks on rank 0 (collective); return what went wrong."""
        problem = self._first_problem(self._recorder.error)
        if problem is None:
            problem = self._first_problem(self._merge_on_rank_0())
        self._control.Free()
        if problem is not None:
            return f"{problem} The records of the ranks are left in {self._path}.rank-*."
        Path(str(self._part.name)).unlink(missing_ok=True)
        return None

    def close(self) -> None:
        """Stop and merge at the end of the program; rank 0 reports what goes wrong."""
        self.stop()
        problem = self.merge()
        if problem is not None and self._everyone.rank == 0:
            write_error(f"warning: {problem}")

    def _write_now_and_then(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECONDS):
            with self._errors.told_once():
                self._recorder.write()

    def _first_problem(self, mine: str | None) -> str | None:
        """Return the first rank's problem on every rank (collective)."""
        return next(filter(None, self._control.allgather(mine)), None)

    def _merge_on_rank_0(self) -> str | None:
        # Hosts need not share a file system.
        parts = [part_of(self._path, rank) for rank in range(self._everyone.size)]
        unseen = self._control.bcast([not part.exists() for part in parts])
        own = Path(str(self._part.name))
        sent = self._control.gather(own.read_bytes() if unseen[self._everyone.rank] else None)
        if sent is None:
            return None
        try:
            for part, content in zip(parts, sent, strict=True):
                if content is not None:
                    part.write_bytes(content)
            merge(self._path, parts, (self._end - self._begin) / 1000)
            for part in parts:
                part.unlink(missing_ok=True)
        except OSError as error:
            return f"cannot write the timeline {self._path}: {error.strerror or error}."
        return None


def _begin(everyone: Communicator, hosts: Sequence[int]) -> int:
    """Return the start of the recording by the clock of this rank's host (collective)."""
    moments = []
    for _ in range(_ROUNDS):
        everyone.control.Barrier()
        moments.append(Recorder.now())
    clocks = everyone.control.allgather(moments)
    own, first = clocks[hosts[everyone.rank]], clocks[0]
    differences = (a - b for a, b in zip(own, first, strict=True))
    return first[-1] + round(statistics.median(differences))


def part_of(path: Path, rank: int) -> Path:
    """Return the file that a rank writes until all are merged to `path`."""
    return path.with_name(f"{path.name}.rank-{rank}")


def _make_room(path: Path, *, overwrite: bool) -> None:
    """Remove what an earlier program has left, or raise `OutputError`."""
    left = sorted(path.parent.glob(f"{glob.escape(path.name)}.rank-*"))
    if overwrite:
        for part in left:
            part.unlink(missing_ok=True)
    elif path.exists() or left:
        raise OutputError(
            f"the timeline {path if path.exists() else left[0]} already exists. Remove it, choose "
            f"another name, or pass overwrite=True."
        )


def _open_part(path: Path, rank: int) -> io.FileIO:
    """Open this rank's file, in a temporary folder if its host lacks the folder of `path`."""
    part = part_of(path, rank)
    if rank > 0 and not part.parent.is_dir():
        part = Path(tempfile.gettempdir(), part.name)
    try:
        return part.open("wb+", buffering=0)
    except OSError as error:
        raise OutputError(f"rank {rank} cannot write a timeline to {part}: {error}.") from None
