"""The pieces of the timeline, given made-up events: what is written of them."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from sciml_par.errors import OutputError
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.timeline.chrome_trace import Trace
from sciml_par.parallel.timeline.json_array_file import TraceFile
from sciml_par.parallel.timeline.recorder import EventKind, Recorder, Row

MICRO = 1000


def kind(*, root: int | None = None, members: tuple[int, ...] = (0, 1, 2)) -> EventKind:
    return EventKind("world", members, "a name", "a call()", 8, "MPI", root, tensor=True)


def row(begun: int, ended: int, *, sequence: int = 1, agreed: bool = False) -> Row:
    """An event of the first kind, at these microseconds."""
    return Row(0, sequence, begun * MICRO, ended * MICRO, agreed, enqueued=False)


def written(lines) -> list[dict]:
    return json.loads(f"[{','.join(lines)}]")


def collectives(trace: Trace, told: dict[int, Row], of: EventKind) -> dict[int, dict]:
    """What is written when these ranks have told of one collective: {rank: event}."""
    lines = [line for rank, each in told.items() for line in trace.add(rank, {0: of}, [each])]
    return {e["args"]["rank"]: e for e in written(lines) if e.get("cat") == "collective"}


def test_all_wait_for_the_last():
    told = {0: row(10, 60), 1: row(40, 58), 2: row(25, 61)}
    events = collectives(Trace(5 * MICRO, [0, 0, 0]), told, kind())
    assert {r: e["ts"] for r, e in events.items()} == {0: 5, 1: 35, 2: 20}
    assert {r: e["args"]["wait_us"] for r, e in events.items()} == {0: 30, 1: 0, 2: 15}
    assert {r: e["args"]["transfer_us"] for r, e in events.items()} == {0: 20, 1: 18, 2: 21}


@pytest.mark.parametrize("agreed", (False, True))
def test_of_a_broadcast_only_the_root_is_waited_for(agreed):
    """Unless they compare first what they ask for: that takes all of them."""
    told = {0: row(0, 30, agreed=agreed), 1: row(10, 35, agreed=agreed), 2: row(20, 40)}
    events = collectives(Trace(0, [0, 0, 0]), told, kind(root=1))
    expected = {0: 20, 1: 10, 2: 0} if agreed else {0: 10, 1: 0, 2: 0}
    assert {r: e["args"]["wait_us"] for r, e in events.items()} == expected


def test_clocks_are_put_right():
    """Rank 1's clock is 100 µs behind; in truth it came 10 µs after rank 0."""
    told = {0: row(200, 230), 1: row(110, 129)}
    events = collectives(Trace(0, [0, 100 * MICRO]), told, kind(members=(0, 1)))
    assert (events[1]["ts"], events[0]["args"]["wait_us"]) == (210, 10)


def test_no_wait_is_longer_than_its_collective():
    """However wrong the clocks."""
    told = {0: row(0, 5), 1: row(50, 60)}
    events = collectives(Trace(0, [0, 0]), told, kind(members=(0, 1)))
    assert (events[0]["args"]["wait_us"], events[0]["args"]["transfer_us"]) == (5, 0)


def test_a_group_that_gets_the_name_of_another_is_not_matched_with_it():
    """The first is gone before rank 1 has told of its last collective."""
    trace = Trace(0, [0, 0])
    first, second = (replace(kind(members=(0, 1)), identity=(0, n)) for n in (1, 2))
    assert collectives(trace, {0: row(0, 5)}, first) == {}
    lines = list(trace.add(0, {1: second}, [row(20, 25)._replace(kind=1)]))
    assert [event["ph"] for event in written(lines)] == []
    events = collectives(trace, {1: row(1, 5)}, first)
    assert {rank: event["ts"] for rank, event in events.items()} == {0: 0, 1: 1}


def test_what_lacks_a_partner_is_written_at_the_end_without_a_wait():
    trace = Trace(0, [0, 0])
    assert collectives(trace, {0: row(0, 5)}, kind(members=(0, 1))) == {}
    (event,) = written(trace.rest())
    assert event["dur"] == 5 and event["args"]["unmatched"] and "wait_us" not in event["args"]
    assert trace.unmatched == 1 and list(trace.rest()) == []


def test_it_does_not_wait_for_partners_without_limit():
    trace = Trace(0, [0, 0], limit=3)
    rows = [row(n, n + 1, sequence=n) for n in range(5)]
    events = written(trace.add(0, {0: kind(members=(0, 1))}, rows))
    assert [e["args"]["number"] for e in events if e["ph"] == "X"] == [0, 1]


class Group:
    """What a recorder reads of a communicator."""

    name = "a group"
    identity = (4, 2)
    world_ranks = (4, 7)
    sequence = 3


GROUP = Group()


def test_a_recorder_tells_each_kind_once():
    recorder = Recorder()
    signature = Signature("broadcast", "float32", (2,), root=1, by="NCCL")
    for size, asked in ((8, signature), (8, signature), (-1, replace(signature, rows_only=True))):
        recorder.note(GROUP, asked, recorder.now(), size, agreed=False, enqueued=True)
    kinds, rows = recorder.drain(2)
    call = "broadcast(float32 [2], root 1)"
    assert kinds == {0: EventKind("a group", (4, 7), call, call, 8, "NCCL", 7, True, (4, 2))}
    assert [each[:2] for each in rows] == [(0, 3), (0, 3)]
    assert all(each.begun <= each.ended and each[4:] == (False, True) for each in rows)
    kinds, rows = recorder.drain()
    assert len(rows) == 1
    expected = f"{call}: numbers of rows"
    assert (kinds[1].name, kinds[1].size, kinds[1].tensor) == (expected, 0, False)
    assert recorder.drain() == ({}, [])


def test_a_recorder_is_bounded():
    recorder = Recorder(limit=3)
    for _ in range(5):
        recorder.note(GROUP, Signature("barrier"), recorder.now())
    assert (len(recorder), recorder.dropped(), recorder.dropped()) == (3, 2, 0)
    recorder.drain()
    recorder.note(GROUP, Signature("barrier"), recorder.now())
    assert (len(recorder), recorder.dropped()) == (1, 0)


def test_the_file_is_complete_after_every_write(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    lengths = []
    pwrite = os.pwrite

    def looked_at(*arguments):
        written = pwrite(*arguments)
        lengths.append(len(json.loads(path.read_text())))
        return written

    monkeypatch.setattr(os, "pwrite", looked_at)
    file = TraceFile(path)
    file.append(["1"])
    file.append([])
    file.append(["2", "3"])
    file.append([json.dumps("x" * 100_000)] * 7)
    file.close()
    assert lengths[:3] == [0, 1, 3]
    assert lengths[-1] == 10 and len(lengths) > 4


def test_a_write_that_finds_too_little_room_leaves_it_complete(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    file = TraceFile(path)
    file.append(["1"])
    pwrite, room = os.pwrite, 20
    monkeypatch.setattr(os, "pwrite", lambda at, data, where: pwrite(at, data[:room], where))
    with pytest.raises(OutputError, match="cannot write the timeline .*a.json: no space left"):
        file.append([json.dumps("x" * 100)])
    assert json.loads(path.read_text()) == [1]
