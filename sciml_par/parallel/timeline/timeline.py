"""A record of all collectives of all ranks, in a file that ui.perfetto.dev displays."""

from __future__ import annotations

import errno
import io
import os
import shutil
import socket
import statistics
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sciml_par._stderr import write_error
from sciml_par._thread_errors import ThreadErrors
from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.timeline.chrome_trace import (
    OPENING,
    line,
    mark,
    process_name,
    write_array,
)
from sciml_par.parallel.timeline.merge import folder_of_parts, merge, part_name
from sciml_par.parallel.timeline.recorder import GroupRecorder, Recorder

if TYPE_CHECKING:
    from sciml_par.parallel.groups.communicator import Communicator

_INTERVAL_SECONDS = 0.5
_ROUNDS = 20


def start_timeline(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Record every collective of every rank, from now on (collective).

    Twice a second each rank writes its records to a separate file in the folder `path` + ".parts".
    A host that does not see this folder uses a temporary one. `stop_timeline`, or the end of the
    program, merges them to one JSON array in Chrome's trace format: open it at
    https://ui.perfetto.dev. After a program that was killed,
    `python -m sciml_par.parallel.timeline.merge` does so. See docs/timeline.md.

    Parameters
    ----------
    path : the file. The value of rank 0 is used.
    overwrite : replace an existing file, and parts that were not merged.

    Raises
    ------
    InputError
        A timeline is already being recorded.
    OutputError
        The file exists and `overwrite` is false, or it cannot be written.
    """
    world = current_world()
    if world.timeline is not None:
        raise InputError(
            "start_timeline: a timeline is already being recorded; call stop_timeline() first."
        )
    everyone = world.communicator
    path = Path(everyone.broadcast_object(os.path.abspath(path) if everyone.rank == 0 else ""))
    everyone.on_root(lambda: _make_folder(path, overwrite=overwrite))
    part = everyone.attempt(lambda: _open_part(path, everyone.rank))
    offset = _clock_offset(everyone, world.hosts)
    begin = everyone.broadcast_object(Recorder.now())
    recorder = Recorder(part, everyone.rank, origin=begin - offset)
    host = socket.gethostname()
    places = everyone.allgather_object(f"{host}:{part.name}")
    recorder.append(OPENING)
    if everyone.rank == 0:
        began = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        recorder.append(line({**mark("timeline begins", 0.0, began), "parts": places}))
    recorder.append("".join(map(line, process_name(everyone.rank, host))))
    timeline = Timeline(everyone, path, part, recorder, begin)
    timeline.start()
    world.timeline = timeline


def stop_timeline() -> None:
    """Stop recording, and merge the records of all ranks to one file (collective).

    Without a timeline it does nothing.

    Raises
    ------
    OutputError
        A file cannot be written; earlier records stay in the folder of the parts.
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
    """Records the timeline of one rank."""

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

    def start(self) -> None:
        """Begin to record."""
        for group in self._everyone.all_groups:
            group.progress.observe(GroupRecorder(self._recorder, group))
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
        folder, own = folder_of_parts(self._path), Path(str(self._part.name))
        problem = self._first_problem(self._recorder.error)
        if problem is None:
            problem = self._first_problem(self._merge_on_rank_0(own, folder))
        self._control.Free()
        if problem is not None:
            return f"{problem} The records of the ranks are left in {folder}."
        if self._everyone.rank == 0 or own.parent != folder:
            shutil.rmtree(own.parent, ignore_errors=True)
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

    def _merge_on_rank_0(self, own: Path, folder: Path) -> str | None:
        # Hosts need not share a file system.
        sent = self._control.gather(None if own.parent == folder else own.read_bytes())
        if sent is None:
            return None
        try:
            for rank, content in enumerate(sent):
                if content is not None:
                    (folder / part_name(rank)).write_bytes(content)
            merge(self._path, end_us=(self._end - self._begin) / 1000)
        except OSError as error:
            return f"cannot write the timeline {self._path}: {error.strerror or error}."
        except OutputError as error:
            return str(error)
        return None


def _clock_offset(everyone: Communicator, hosts: Sequence[int]) -> int:
    """Return the nanoseconds between rank 0's clock and this rank's (collective).

    Ranks leave a barrier at about the same moment. Ranks of one host have one clock.
    """
    moments = []
    for _ in range(_ROUNDS):
        everyone.control.Barrier()
        moments.append(Recorder.now())
    theirs = everyone.control.bcast(moments)
    if hosts[everyone.rank] == hosts[0]:
        return 0
    return round(statistics.median(a - b for a, b in zip(theirs, moments, strict=True)))


def _make_folder(path: Path, *, overwrite: bool) -> None:
    """Make the folder of the parts, and a file that explains how to merge them."""
    folder = folder_of_parts(path)
    command = f"python -m sciml_par.parallel.timeline.merge {path}"
    try:
        if overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        elif path.exists():
            raise FileExistsError(errno.EEXIST, "", path)
        folder.mkdir()
        hint = f"not merged yet; after a crash, run: {command}"
        write_array(path, [mark(hint, 0.0, {})])
    except FileExistsError as error:
        raise OutputError(
            f"the timeline {error.filename} already exists. Remove it, choose another name, or "
            f"pass overwrite=True."
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write the timeline {path}: {error.strerror}.") from None


def _open_part(path: Path, rank: int) -> io.FileIO:
    """Open this rank's file, in a temporary folder if its host does not see rank 0's."""
    folder = folder_of_parts(path)
    try:
        if not folder.is_dir():
            folder = Path(tempfile.mkdtemp(prefix="sciml_par-timeline-"))
        return (folder / part_name(rank)).open("xb+", buffering=0)
    except OSError as error:
        raise OutputError(f"rank {rank} cannot write a timeline to {folder}: {error}.") from None
