"""A record of all collectives of all ranks, as a file that ui.perfetto.dev draws."""

from __future__ import annotations

import errno
import io
import os
import shutil
import socket
import tempfile
import threading
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
from sciml_par.parallel.timeline.clock_offsets import clock_offsets
from sciml_par.parallel.timeline.merge import folder_of_parts, merge, part_name
from sciml_par.parallel.timeline.recorder import GroupRecorder, Recorder
from sciml_par.parallel.timeline.remote_lines import end_service, lines_of, serve_lines

if TYPE_CHECKING:
    from sciml_par.parallel.groups.communicator import Communicator

_INTERVAL_SECONDS = 0.5


def start_timeline(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Record every collective of every rank, from now on (collective).

    Each rank writes its own, twice a second, to a file in the folder `path` + ".parts", or in a
    temporary folder of its host if that does not see the one of rank 0. `stop_timeline`, or the end
    of the program, makes one file of them: a JSON array in Chrome's trace format; open it at
    https://ui.perfetto.dev. If the program is killed, they stay, and the command
    `python -m sciml_par.parallel.timeline.merge` merges them. See docs/timeline.md.

    Parameters
    ----------
    path : the file, as rank 0 has it; the other ranks' `path` is not looked at.
    overwrite : replace a file that is there, and what is left of one that was not merged.

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
    everyone = world.communicator
    path = Path(everyone.broadcast_object(os.path.abspath(path) if everyone.rank == 0 else ""))
    everyone.on_root(lambda: _make_folder(path, overwrite=overwrite))
    part = everyone.attempt(lambda: _open_part(path, everyone.rank))
    offset = everyone.control.scatter(clock_offsets(everyone.control, world.hosts))
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
    """End the record, and write what all ranks have recorded to its file (collective).

    Without a timeline it does nothing.

    Raises
    ------
    OutputError
        The file cannot be written, or a rank could not write its part; what has been recorded is
        left beside it.
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
    """One rank's part in the recording of a timeline."""

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
        """Record no more, and write what is left to this rank's file."""
        for group in self._everyone.all_groups:
            for observer in group.progress.observers:
                if isinstance(observer, GroupRecorder):
                    group.progress.forget(observer)
        self._end = Recorder.now()
        self._stopped.set()
        self._thread.join()
        self._recorder.write()

    def merge(self) -> str | None:
        """Make one file of what all ranks have recorded (collective)."""
        folder, own = folder_of_parts(self._path), Path(str(self._part.name)).parent
        problem = self._first_problem(self._recorder.error)
        if problem is None:
            problem = self._merge_all()
        self._part.close()
        problem = self._first_problem(problem)
        self._control.Free()
        if problem is not None:
            return f"{problem} What the ranks have recorded is left in {folder}."
        if self._everyone.rank == 0 or own != folder:
            shutil.rmtree(own, ignore_errors=True)
        return None

    def close(self) -> None:
        """`stop` and `merge` at the end of the program; rank 0 says what goes wrong."""
        self.stop()
        problem = self.merge()
        if problem is not None and self._everyone.rank == 0:
            write_error(f"warning: {problem}")

    def _write_now_and_then(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECONDS):
            with self._errors.told_once():
                self._recorder.write()

    def _first_problem(self, mine: str | None) -> str | None:
        """That of the first rank that has one, on every rank (collective)."""
        return next(filter(None, self._control.allgather(mine)), None)

    def _merge_all(self) -> str | None:
        control = self._control
        self._part.seek(0)
        own = io.BufferedReader(self._part)
        if self._everyone.rank > 0:
            serve_lines(control, own)
            return None
        others = [lines_of(control, rank) for rank in range(1, self._everyone.size)]
        try:
            merge(self._path, [own, *others], end_us=(self._end - self._begin) / 1000)
        except OutputError as error:
            return str(error)
        finally:
            end_service(control)
        return None


def _make_folder(path: Path, *, overwrite: bool) -> None:
    """Make the folder of the parts, and a file that says how to merge them."""
    folder = folder_of_parts(path)
    command = f"python -m sciml_par.parallel.timeline.merge {path}"
    try:
        if overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        elif path.exists():
            raise FileExistsError(errno.EEXIST, "", path)
        folder.mkdir()
        hint = f"not merged yet; where the program does not do it any more: {command}"
        write_array(path, [mark(hint, 0.0, {})])
    except FileExistsError as error:
        raise OutputError(
            f"the timeline {error.filename} is there already; remove it, choose another name or "
            f"allow it to be overwritten."
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write the timeline {path}: {error.strerror}.") from None


def _open_part(path: Path, rank: int) -> io.FileIO:
    """This rank's file, in a temporary folder if its host does not see rank 0's."""
    folder = folder_of_parts(path)
    try:
        if not folder.is_dir():
            folder = Path(tempfile.mkdtemp(prefix="sciml_par-timeline-"))
        return (folder / part_name(rank)).open("xb+", buffering=0)
    except OSError as error:
        raise OutputError(f"rank {rank} cannot write a timeline to {folder}: {error}.") from None
