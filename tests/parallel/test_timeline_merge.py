"""What a rank writes of its collectives, and the merge of all ranks' files."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.timeline.recorder import Recorder
from sciml_par.parallel.timeline.trace_file import merge


def event(rank, begun, ended, *, ranks=3, root=None, number=1, group=(0, 1), **flags):
    """An event as a rank writes it, at these microseconds."""
    return {
        "name": "a name",
        "cat": "collective",
        "ph": "X",
        "pid": rank + 1,
        "tid": 1,
        "ts": float(begun),
        "dur": float(ended - begun),
        "args": {"rank": rank, "number": number, **flags},
        "match": {"group": list(group), "ranks": ranks, "root": root},
    }


def collectives(folder: Path, *parts: list[dict]) -> list[dict]:
    """Merge the files of ranks, and return the arguments of their collectives."""
    files = [folder / f"t.json.rank-{rank}" for rank in range(len(parts))]
    for file, events in zip(files, parts, strict=True):
        lines = "".join(json.dumps(each) + ",\n" for each in events)
        file.write_text(f'[\n{lines}{{"name":"cut o')  # by a full disk
    merge(folder / "t.json", files, 100.0)
    events = json.loads((folder / "t.json").read_text())
    assert events[-1]["name"] == "timeline ends" and not any("match" in each for each in events)
    for i, each in enumerate(events):  # inside of a collective lie its wait, if any, and transfer
        if "wait_us" in each.get("args", ()):
            parts = [(p["name"], p["ts"], p["dur"]) for p in events[i + 1 : i + 3] if "cat" in p]
            wait, transfer = each["args"]["wait_us"], each["args"]["transfer_us"]
            inside = [("wait", each["ts"], wait)] * (wait > 0)
            inside.append(("transfer", each["ts"] + wait, transfer))
            assert parts[: len(inside)] == inside
    return [each["args"] for each in events if each.get("cat") == "collective"]


def waits(folder: Path, *events: dict) -> list[tuple]:
    """[(wait, transfer)] of one collective of each rank."""
    found = collectives(folder, *([each] for each in events))
    return [(a.get("wait_us"), a.get("transfer_us")) for a in found]


def test_all_wait_for_the_last(tmp_path):
    found = waits(tmp_path, event(0, 10, 60), event(1, 40, 58), event(2, 25, 61))
    assert found == [(30, 20), (0, 18), (15, 21)]


@pytest.mark.parametrize("agreed", (False, True))
def test_in_a_broadcast_ranks_wait_for_the_root_alone_unless_they_compare_first(tmp_path, agreed):
    flags = {"agreed": True} if agreed else {}
    times = enumerate([(0, 30), (10, 35), (20, 40)])
    found = waits(tmp_path, *(event(rank, *each, root=1, **flags) for rank, each in times))
    assert [wait for wait, _ in found] == ([20, 10, 0] if agreed else [10, 0, 0])


def test_a_wait_is_not_longer_than_its_collective_however_wrong_the_clocks(tmp_path):
    found = waits(tmp_path, event(0, 0, 5, ranks=2), event(1, 50, 60, ranks=2))
    assert found == [(5, 0), (0, 10)]


def test_groups_of_the_same_name_are_not_matched(tmp_path):
    other = event(1, 20, 25, ranks=2, group=(0, 2))
    assert waits(tmp_path, event(0, 0, 5, ranks=2), other) == [(None, None)] * 2


def test_a_collective_that_some_ranks_lack_is_not_matched(tmp_path):
    first = [event(rank, rank, 5, ranks=2) for rank in range(2)]
    found = collectives(tmp_path, [first[0], event(0, 6, 9, number=2)], [first[1]])
    assert [each.get("wait_us") for each in found] == [1, None, 0]
    assert [each.get("unmatched") for each in found] == [None, True, None]


class Group:
    """What a recorder reads of a communicator."""

    name = "a group"
    identity = (4, 2)
    world_ranks = (4, 7)


def shown(file: io.FileIO) -> list[dict]:
    lines = Path(str(file.name)).read_text().splitlines()
    events = [json.loads(each[:-1]) for each in lines if each.endswith("},")]
    return [each for each in events if each["ph"] == "X"]


def test_a_recorder_writes_what_a_collective_was(tmp_path, monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 1_005_500)
    signature = Signature("broadcast", "float32", (2,), root=1, transport="NCCL")
    with (tmp_path / "part").open("xb", buffering=0) as file:
        recorder = Recorder(file, 7, origin=1_000_000)
        recorder.note(Group(), 3, signature, 1_002_000, 8, agreed=False, enqueued=True)
        rows = replace(signature, rows_only=True, name="mine")
        recorder.note(Group(), 3, rows, 1_002_000)
        recorder.write()
        tensor, rows = shown(file)
    assert (tensor["name"], tensor["cat"]) == ("broadcast(float32 [2], root 1)", "collective")
    assert (tensor["ts"], tensor["dur"]) == (2.0, 3.5)
    assert tensor["args"] == {
        "rank": 7,
        "group": "a group",
        "transport": "NCCL",
        "bytes": 8,
        "number": 3,
        "enqueued": True,
    }
    assert tensor["match"] == {"group": [4, 2], "ranks": 2, "root": 7}
    assert (rows["name"], rows["cat"]) == ("mine: numbers of rows", "exchange")


def test_a_recorder_keeps_no_more_than_its_limit(tmp_path):
    with (tmp_path / "part").open("xb", buffering=0) as file:
        recorder = Recorder(file, 7, origin=0, limit=3)
        for count in range(1, 8):
            recorder.note(Group(), 3, Signature("barrier"), recorder.now())
            assert len(shown(file)) == count // 3 * 3


class Disk(io.FileIO):
    """Takes ten bytes at a time, and is full in the end."""

    def write(self, data):
        if self.tell() > 2000:
            raise OSError(28, "No space left on device")
        return super().write(data[:10])


def test_a_disk_that_gets_full_leaves_whole_events(tmp_path):
    file = Disk(tmp_path / "part", "xb")
    recorder = Recorder(file, 7, origin=0)
    for _ in range(20):
        recorder.note(Group(), 3, Signature("barrier"), recorder.now())
        recorder.write()
    assert 0 < len(shown(file)) < 20
    assert recorder.error.endswith("part: No space left on device.")
