"""Events in Chrome's trace format, one a line.

The format: "Trace Event Format", Google, 2016; arrays of events, of which chrome://tracing and
ui.perfetto.dev make pictures. They also read an array that lacks its closing bracket.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Event = dict[str, Any]

FIRST = 1
"""Processes and threads are numbered from here: Perfetto takes 0 for a part of the system."""

OPENING = "[\n"

as_json = json.JSONEncoder(separators=(",", ":")).encode


def line(event: Mapping[str, Any]) -> str:
    """Return an event as a line of an array that goes on."""
    return f"{as_json(event)},\n"


def process_name(rank: int, host: str) -> list[Event]:
    """A rank is a process."""
    return [
        _metadata(rank, FIRST, "process_name", {"name": f"rank {rank} on {host}"}),
        _metadata(rank, FIRST, "process_sort_index", {"sort_index": rank}),
    ]


def thread_name(rank: int, thread: int, group: str) -> list[Event]:
    """A group is a thread of each of its ranks."""
    return [
        _metadata(rank, thread, "thread_name", {"name": group}),
        _metadata(rank, thread, "thread_sort_index", {"sort_index": thread}),
    ]


def mark(name: str, moment_us: float, args: Mapping[str, Any]) -> Event:
    """Return a note at a moment, over all ranks."""
    place = {"pid": FIRST, "tid": FIRST, "ts": moment_us}
    return {"name": name, "ph": "i", "s": "g", **place, "args": dict(args)}


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of such lines, but for the last one if it was not written to its end."""
    for each in lines:
        if each.endswith(b"},\n"):
            yield json.loads(each[:-2])


def write_array(path: Path, events: Iterable[Event]) -> None:
    """Write a complete array."""
    with path.open("w", encoding="utf-8") as file:
        separator = OPENING
        for event in events:
            file.write(separator + as_json(event))
            separator = ",\n"
        file.write("\n]\n")


def _metadata(rank: int, thread: int, name: str, args: Mapping[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": rank + FIRST, "tid": thread, "args": dict(args)}
