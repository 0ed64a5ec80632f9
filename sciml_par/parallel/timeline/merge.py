"""Merge the ranks' events in one file, with the time each rank waited for the others.

`stop_timeline` and the end of a program do so automatically. After a program that was killed, or
while one runs, use the command

    python -m sciml_par.parallel.timeline.merge timeline.json
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.timeline.chrome_trace import Event, mark, read_events, write_array


def folder_of_parts(path: Path) -> Path:
    """Return the folder in which the ranks write until their events are merged to `path`."""
    return path.with_name(f"{path.name}.parts")


def part_name(rank: int) -> str:
    """Return the name of the rank's file."""
    return f"rank-{rank}.json"


def merge(path: Path, *, end_us: float | None = None) -> list[str]:
    """Merge the parts next to the file `path`, leave them there, and return those not found."""
    folder = folder_of_parts(path)
    first = folder / part_name(0)
    if not first.exists():
        raise InputError(f"there is nothing to merge: expected {part_name(0)} in {folder}.")
    places = next(_read(first))["parts"]
    parts = [folder / part_name(rank) for rank in range(len(places))]
    unfinished = folder / "merged.json"
    try:
        write_array(unfinished, _merged([part for part in parts if part.exists()], end_us))
        os.replace(unfinished, path)
    except OSError as error:
        raise OutputError(f"cannot write the timeline {path}: {error.strerror or error}.") from None
    return [place for part, place in zip(parts, places, strict=True) if not part.exists()]


@dataclass(slots=True)
class _Meeting:
    """One collective: the ranks found, and when the last of them and the root arrived."""

    found: int = 0
    last: float = -float("inf")
    root: float = 0.0


def _merged(parts: Sequence[Path], end_us: float | None) -> Iterator[Event]:
    """Yield the events of all parts, each collective with its wait and transfer."""
    meetings = _meetings(parts)
    unmatched = 0
    for part in parts:
        for event in _read(part):
            event.pop("parts", None)
            match = event.pop("match", None)
            if match is None:
                yield event
                continue
            meeting = meetings[_key(event, match)]
            if meeting.found == match["ranks"]:
                # Where ranks only receive from the root, they wait for nobody else.
                for_all = match["root"] is None or "agreed" in event["args"]
                yield from _with_wait(event, meeting.last if for_all else meeting.root)
            else:
                unmatched += 1
                event["args"]["unmatched"] = True
                yield event
    if end_us is not None:
        yield mark("timeline ends", end_us, {"unmatched": unmatched})


def _meetings(parts: Sequence[Path]) -> dict[tuple[int, ...], _Meeting]:
    meetings: dict[tuple[int, ...], _Meeting] = {}
    for part in parts:
        for event in _read(part):
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


def _read(part: Path) -> Iterator[Event]:
    with part.open("rb") as file:
        yield from read_events(file)


def _with_wait(event: Event, arrived: float) -> Iterator[Event]:
    """Yield a collective with its wait, until the others have `arrived`, and its transfer."""
    wait = round(min(max(arrived - event["ts"], 0.0), event["dur"]), 3)
    transfer = round(event["dur"] - wait, 3)
    event["args"] |= {"wait_us": wait, "transfer_us": transfer}
    yield event
    if wait > 0:
        yield _inside(event, "wait", event["ts"], wait)
    yield _inside(event, "transfer", round(event["ts"] + wait, 3), transfer)


def _inside(event: Event, name: str, begin: float, duration: float) -> Event:
    place = {"pid": event["pid"], "tid": event["tid"]}
    return {"name": name, "cat": name, "ph": "X", **place, "ts": begin, "dur": duration}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sciml_par.parallel.timeline.merge",
        description="Merge the records of the ranks of a program that was killed or still runs. "
        "The folder of these records, FILE.parts, may be removed afterwards.",
    )
    parser.add_argument("file", type=Path, help="the file of the timeline")
    path = parser.parse_args(arguments).file
    try:
        missing = merge(path)
    except (InputError, OutputError) as error:
        print(f"sciml_par: {error}", file=sys.stderr)
        return 1
    if missing:
        folder = folder_of_parts(path)
        print(f"Some ranks are missing. Copy these files to {folder}, and merge again:", *missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
