"""One rank's collectives, noted at little cost and written to a separate file."""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import lru_cache

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.progress import Observer
from sciml_par.parallel.requests.request import Announcement
from sciml_par.parallel.requests.signature import NUMBERS_OF_ROWS, Signature
from sciml_par.parallel.timeline.trace_file import FIRST, as_json, line, named

_LIMIT = 50_000
_KINDS = 10_000

_Note = tuple[Communicator, int, Signature, int, int, int, bool, bool]


class Recorder:
    """The collectives of this rank, as lines of Chrome's trace format.

    `match` in each line lets `merge` find the same collective of the other ranks: the group's
    identity, the number of its ranks, and the rank of the world that the others wait for, None if
    all wait for all. One thread notes, another may write.

    Attributes
    ----------
    error : the error of the file, after which nothing is written.
    """

    now = staticmethod(time.monotonic_ns)

    def __init__(self, file: io.FileIO, rank: int, *, origin: int, limit: int = _LIMIT) -> None:
        self._file = file
        self._rank = rank
        self._origin = origin
        self._limit = limit
        self._notes: deque[_Note] = deque()
        self._threads: dict[tuple[str, tuple[int, ...]], int] = {}
        self._names: list[str] = []
        # Bounded: shapes may keep changing, and groups come and go.
        self._parts = lru_cache(maxsize=_KINDS)(self._parts_of_line)
        self._writing = threading.Lock()
        self.error: str | None = None

    def note(
        self,
        group: Communicator,
        number: int,
        signature: Signature,
        begun: int,
        size: int = -1,
        agreed: bool = True,
        enqueued: bool = False,
    ) -> None:
        """Note the end of the `number`-th collective of `group`, which began at `begun`."""
        ended = time.monotonic_ns()
        # Only objects: the writing thread makes text of them.
        self._notes.append((group, number, signature, size, begun, ended, agreed, enqueued))
        if len(self._notes) >= self._limit:
            self.write()

    def write(self) -> None:
        """Write all notes so far."""
        with self._writing:
            lines = [self._line(self._notes.popleft()) for _ in range(len(self._notes))]
            names, self._names = self._names, []
            self.append("".join(names + lines))

    def append(self, text: str) -> None:
        """Write these lines, unless the file has met an error."""
        data = memoryview(text.encode())
        try:
            while data and self.error is None:
                data = data[self._file.write(data) :]
        except OSError as error:
            self.error = (
                f"rank {self._rank} cannot write what it records of the timeline to "
                f"{self._file.name}: {error.strerror}."
            )

    def _line(self, note: _Note) -> str:
        group, sequence, signature, size, begun, ended, agreed, enqueued = note
        head, args = self._parts(group, signature, size >= 0)
        start, duration = (begun - self._origin) / 1000, (ended - begun) / 1000
        flags = (',"agreed":true' if agreed else "") + (',"enqueued":true' if enqueued else "")
        return (
            f'{head},"ts":{start:.3f},"dur":{duration:.3f},"args":{{{args},'
            f'"bytes":{max(size, 0)},"number":{sequence}{flags}}}}},\n'
        )

    def _parts_of_line(
        self, group: Communicator, signature: Signature, tensor: bool
    ) -> tuple[str, str]:
        """Return the head and the arguments that all lines of this kind share."""
        members = tuple(group.world_ranks)
        call = str(signature).removesuffix(f" by {signature.transport}")
        name = signature.name or call
        if signature.name and signature.rows_only:
            name += NUMBERS_OF_ROWS
        thread = self._threads.get((group.name, members))
        if thread is None:
            thread = self._threads[group.name, members] = len(self._threads) + FIRST
            self._names += map(line, named("thread", self._rank, group.name, thread))
        root = None if signature.root is None else members[signature.root]
        event = {
            "name": name,
            "cat": "collective" if tensor else "exchange",
            "ph": "X",
            "pid": self._rank + FIRST,
            "tid": thread,
            "match": {"group": group.identity, "ranks": len(members), "root": root},
        }
        args = {"rank": self._rank, "group": group.name, "transport": signature.transport}
        if call != name:
            args["call"] = call
        return as_json(event)[:-1], as_json(args)[1:-1]


@dataclass(eq=False)
class GroupRecorder(Observer):
    """Notes the collectives of one group."""

    recorder: Recorder
    group: Communicator
    _begun: int | None = None

    def begun(self, number: int, announcement: Announcement) -> None:
        """Note the start of a collective."""
        self._begun = self.recorder.now()

    def ended(
        self, number: int, signature: Signature, size: int, compared: bool, enqueued: bool
    ) -> None:
        """Note its end, if it began after the recording."""
        if self._begun is not None:
            self.recorder.note(self.group, number, signature, self._begun, size, compared, enqueued)

    def for_new_group(self, group: Communicator) -> GroupRecorder:
        """Return the observer of a new group."""
        return GroupRecorder(self.recorder, group)
