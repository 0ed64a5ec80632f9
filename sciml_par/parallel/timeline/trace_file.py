"""Events in Chrome's trace format, one a line, and their merge to one file.

The format: "Trace Event Format", Google, 2016; arrays of events, of which chrome://tracing and
ui.perfetto.dev make pictures. They also read an array that lacks its closing bracket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]

FIRST = 1
"""Processes and threads are numbered from here: Perfetto takes 0 for a part of the system."""

OPENING = "[\n"

as_json = json.JSONEncoder(separators=(",", ":")).encode


def line(event: Mapping[str, Any]) -> str:
    """Return an event as a line of an open array."""
    return f"{as_json(event)},\n"


def named(what: str, rank: int, name: str, thread: int | None = None) -> list[Event]:
    """Return the events that name a rank's "process", or a group's "thread" in it."""
    place = {"ph": "M", "pid": rank + FIRST, "tid": FIRST if thread is None else thread}
    order = rank if thread is None else thread
    return [
        {"name": f"{what}_name", **place, "args": {"name": name}},
        {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}},
    ]


def mark(name: str, moment_us: float, args: Mapping[str, Any]) -> Event:
    """Return a note at a moment, over all ranks."""
    place = {"pid": FIRST, "tid": FIRST, "ts": moment_us}
    return {"name": name, "ph": "i", "s": "g", **place, "args": dict(args)}


def merge(path: Path, parts: Sequence[Path], end_us: float) -> None:
    """Write the events of the parts to `path`, with the time each rank waited for the others."""
    with path.open("w", encoding="utf-8") as file:
        separator = OPENING
        for event in _merged(parts, end_us):
            file.write(separator + as_json(event))
            separator = ",\n"
        file.write("\n]\n")


@dataclass(slots=True)
class _Meeting:
    """One collective: the ranks found, and when the last of them and the root arrived."""

    found: int = 0
    last: float = -float("inf")
    root: float = 0.0


def _merged(parts: Sequence[Path], end_us: float) -> Iterator[Event]:
    """Yield the events of all parts, each collective with its wait and transfer."""
    meetings = _meetings(parts)
    unmatched = 0
    for event in _events(parts):
        match = event.pop("match", None)
        if match is None:
            yield event
            continue
        meeting = meetings[_key(event, match)]
        if meeting.found == match["ranks"]:
            # Where ranks only receive from the root, they wait for nobody else.
            for_all = match["root"] is None or "agreed" in event["args"]
            arrived = meeting.last if for_all else meeting.root
            wait = round(min(max(arrived - event["ts"], 0.0), event["dur"]), 3)
            transfer = round(event["dur"] - wait, 3)
            event["args"] |= {"wait_us": wait, "transfer_us": transfer}
            yield event
            if wait > 0:
                yield _inside(event, "wait", event["ts"], wait)
            yield _inside(event, "transfer", round(event["ts"] + wait, 3), transfer)
        else:
            unmatched += 1
            event["args"]["unmatched"] = True
            yield event
    yield mark("timeline ends", end_us, {"unmatched": unmatched})


def _meetings(parts: Sequence[Path]) -> dict[tuple[int, ...], _Meeting]:
    meetings: dict[tuple[int, ...], _Meeting] = {}
    for event in _events(parts):
        if (match := event.get("match")) is None:
            continue
        meeting = meetings.setdefault(_key(event, match), _Meeting())
        meeting.found += 1
        meeting.last = max(meeting.last, event["ts"])
        if event["args"]["rank"] == match["root"]:
            meeting.root = event["ts"]
    return meetings


def _key(event: Event, match: Event) -> tuple[int, ...]:
    return (*match["group"], event["args"]["number"])


def _events(parts: Sequence[Path]) -> Iterator[Event]:
    for part in parts:
        with part.open("rb") as file:
            yield from (json.loads(each[:-2]) for each in file if each.endswith(b"},\n"))


def _inside(event: Event, name: str, begin: float, duration: float) -> Event:
    place = {"pid": event["pid"], "tid": event["tid"]}
    return {"name": name, "cat": name, "ph": "X", **place, "ts": begin, "dur": duration}
