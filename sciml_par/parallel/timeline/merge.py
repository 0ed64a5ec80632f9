"""The ranks' events in one file, with how long each rank waited for the others.

A program that ends in order does it by itself. After one that was killed, or while it runs,

    python -m sciml_par.parallel.timeline.merge timeline.json

makes the file of what the ranks have written so far.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.timeline.chrome_trace import Event, mark, read_events, write_array

_LIMIT = 200_000


def folder_of_parts(path: Path) -> Path:
    """Where the ranks write until their events are merged to the file `path`."""
    return path.with_name(f"{path.name}.parts")


def part_name(rank: int) -> str:
    """Return the name of the rank's file."""
    return f"rank-{rank}.json"


def merge(path: Path, ranks: Iterable[Iterable[bytes]], *, end_us: float | None = None) -> None:
    """Write what the ranks have recorded, which comes as lines, to the file `path`."""
    unfinished = folder_of_parts(path) / "merged.json"
    try:
        write_array(unfinished, merged(map(read_events, ranks), end_us=end_us))
        os.replace(unfinished, path)
    except OSError as error:
        raise OutputError(f"cannot write the timeline {path}: {error.strerror or error}.") from None


def merged(
    ranks: Iterable[Iterable[Event]], *, end_us: float | None = None, limit: int = _LIMIT
) -> Iterator[Event]:
    """Yield the ranks' events, each rank's in the order of their ends, with their waits."""
    met: dict[tuple[int, ...], list[Event]] = {}
    unmatched = 0
    for event in heapq.merge(*ranks, key=_end):
        match = event.pop("match", None)
        if match is None:
            event.pop("parts", None)
            yield event
            continue
        key = (*match["group"], event["args"]["number"])
        met.setdefault(key, []).append(event)
        if len(met[key]) == match["ranks"]:
            yield from _with_waits(met.pop(key), match["root"])
        elif len(met) > limit:
            unmatched += len(met[next(iter(met))])
            yield from _without_waits(met.pop(next(iter(met))))
    for events in met.values():
        unmatched += len(events)
        yield from _without_waits(events)
    if end_us is not None:
        yield mark("timeline ends", end_us, {"unmatched": unmatched})


def _end(event: Event) -> float:
    """When it was over; names come at once."""
    return event.get("ts", -float("inf")) + event.get("dur", 0.0)


def _with_waits(events: Sequence[Event], root: int | None) -> Iterator[Event]:
    """One collective of all its ranks, each with its wait and its transfer inside."""
    begins = {event["args"]["rank"]: event["ts"] for event in events}
    last = max(begins.values())
    for event in events:
        # Where ranks only receive from the root, they wait for nobody else.
        for_all = root is None or "agreed" in event["args"]
        arrived = last if for_all else begins[root]
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


def _without_waits(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        event["args"]["unmatched"] = True
        yield event


def merge_what_is_there(path: Path) -> list[str]:
    """Merge the parts that lie beside the file `path`, and leave them there."""
    parts = [folder_of_parts(path) / part_name(0)]
    if not parts[0].exists():
        raise InputError(
            f"there is nothing to merge: expected what the ranks have recorded in "
            f"{parts[0].parent}, and {parts[0].name} among it. A timeline that was ended in order "
            f"is complete as it is."
        )
    with parts[0].open("rb") as file:
        places = next(read_events(file))["parts"]
    parts = [parts[0].with_name(part_name(rank)) for rank in range(len(places))]
    with contextlib.ExitStack() as stack:
        merge(path, [stack.enter_context(each.open("rb")) for each in parts if each.exists()])
    return [place for part, place in zip(parts, places, strict=True) if not part.exists()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the command."""
    parser = argparse.ArgumentParser(
        prog="python -m sciml_par.parallel.timeline.merge",
        description="Merge what the ranks of a program that was killed, or that still runs, have "
        "recorded. The folder with their parts, FILE.parts, may be removed afterwards.",
    )
    parser.add_argument("file", type=Path, help="the file that the timeline was to be written to")
    path = parser.parse_args(arguments).file
    try:
        missing = merge_what_is_there(path)
    except (InputError, OutputError) as error:
        print(f"sciml_par: {error}", file=sys.stderr)
        return 1
    if missing:
        folder = folder_of_parts(path)
        print(f"Some ranks are missing. Copy these files to {folder}, and merge again:", *missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
