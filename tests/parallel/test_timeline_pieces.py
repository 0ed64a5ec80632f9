"""The pieces of the timeline, given made-up events: what is written of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sciml_par.errors import OutputError
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.timeline import merge
from sciml_par.parallel.timeline.chrome_trace import line, mark, read_events
from sciml_par.parallel.timeline.recorder import Recorder


def event(rank, begun, ended, *, ranks=3, root=None, number=1, group=(0, 1), **flags):
    """An event as a recorder writes it, at these microseconds."""
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


def merged(*events, limit=10):
    """The collectives of these events, each of a rank of its own: [(rank, wait, transfer)]."""
    found = [e["args"] for e in merge.merged([[e] for e in events], limit=limit) if "args" in e]
    return sorted((a["rank"], a.get("wait_us"), a.get("transfer_us")) for a in found)


def test_all_wait_for_the_last():
    assert merged(event(0, 10, 60), event(1, 40, 58), event(2, 25, 61)) == [
        (0, 30, 20),
        (1, 0, 18),
        (2, 15, 21),
    ]


@pytest.mark.parametrize("agreed", (False, True))
def test_of_a_broadcast_only_the_root_is_waited_for(agreed):
    """Unless they compare first what they ask for: that takes all of them."""
    flags = {"agreed": True} if agreed else {}
    times = ((0, 30), (10, 35), (20, 40))
    found = merged(*(event(rank, *each, root=1, **flags) for rank, each in enumerate(times)))
    assert [wait for _, wait, _ in found] == ([20, 10, 0] if agreed else [10, 0, 0])


def test_no_wait_is_longer_than_its_collective():
    """However wrong the clocks."""
    found = merged(event(0, 0, 5, ranks=2), event(1, 50, 60, ranks=2))
    assert found == [(0, 5, 0), (1, 0, 10)]


def test_a_group_that_gets_the_name_of_another_is_not_matched_with_it():
    first, second = event(0, 0, 5, ranks=2), event(1, 20, 25, ranks=2, group=(0, 2))
    assert merged(first, second) == [(0, None, None), (1, None, None)]


def test_what_lacks_a_partner_is_written_without_a_wait():
    *_, alone, end = merge.merged([[event(0, 0, 5)]], end_us=7.0)
    assert alone["dur"] == 5 and alone["args"]["unmatched"]
    assert end == mark("timeline ends", 7.0, {"unmatched": 1})


def test_it_does_not_wait_for_partners_without_limit():
    """The second rank has not told of the first three."""
    numbers = [[event(0, n, n + 1, ranks=2, number=n) for n in range(6)]]
    numbers.append([event(1, n, n + 2, ranks=2, number=n) for n in range(3, 6)])
    found = [e["args"] for e in merge.merged(numbers, limit=2) if "args" in e]
    assert [a["number"] for a in found if "unmatched" in a] == [0, 1, 2]
    assert "wait_us" in found[-1]  # they were not kept to the end


class Group:
    """What a recorder reads of a communicator."""

    name = "a group"
    identity = (4, 2)
    world_ranks = (4, 7)
    sequence = 3


GROUP = Group()


@pytest.fixture
def part(tmp_path):
    with (tmp_path / "rank-7.json").open("xb", buffering=0) as file:
        yield file


def written(file) -> list[dict]:
    return list(read_events(Path(file.name).open("rb")))


def test_a_recorder_writes_what_a_collective_was(part):
    recorder = Recorder(part, 7, origin=Recorder.now())
    signature = Signature("broadcast", "float32", (2,), root=1, transport="NCCL")
    recorder.note(GROUP, 3, signature, recorder.now(), 8, agreed=False, enqueued=True)
    recorder.note(GROUP, 3, replace(signature, rows_only=True, name="mine"), recorder.now())
    recorder.write()
    name, _, tensor, rows = written(part)
    call = "broadcast(float32 [2], root 1)"
    assert (name["name"], name["args"]) == ("thread_name", {"name": "a group"})
    assert (name["pid"], name["tid"]) == (8, 1)
    assert (tensor["name"], tensor["cat"], tensor["pid"]) == (call, "collective", 8)
    assert tensor["tid"] == rows["tid"] == 1
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
    assert rows["args"]["bytes"] == 0 and rows["args"]["agreed"]
    assert rows["args"]["call"].startswith("broadcast(float32 [2], root 1, name 'mine')")


def test_times_are_those_of_the_timeline(part, monkeypatch):
    recorder = Recorder(part, 7, origin=1_000_000)
    monkeypatch.setattr("time.monotonic_ns", lambda: 1_005_500)
    recorder.note(GROUP, 3, Signature("barrier"), 1_002_000)
    recorder.write()
    *_, shown = written(part)
    assert (shown["ts"], shown["dur"]) == (2.0, 3.5)


def test_a_recorder_keeps_no_more_than_its_limit(part):
    recorder = Recorder(part, 7, origin=0, limit=3)
    for count in range(1, 8):
        recorder.note(GROUP, 3, Signature("barrier"), recorder.now())
        assert sum(event["ph"] == "X" for event in written(part)) == count // 3 * 3


def test_groups_that_come_and_go_are_not_kept(part):
    """For days, maybe."""
    recorder = Recorder(part, 7, origin=0)
    for number in range(3):
        group = Group()
        group.name = f"group {number}"
        recorder.note(group, 3, Signature("barrier"), 0)
    recorder.write()
    assert recorder._parts.cache_info().currsize == 3
    assert recorder._parts.cache_info().maxsize is not None


class Disk(io.FileIO):
    """Takes ten bytes at a time, and is full in the end."""

    def write(self, data):
        if self.tell() > 2000:
            raise OSError(28, "No space left on device")
        return super().write(data[:10])


def test_a_disk_that_gets_full_leaves_whole_events(tmp_path):
    file = Disk(tmp_path / "rank-7.json", "xb")
    recorder = Recorder(file, 7, origin=0)
    for _ in range(20):
        recorder.note(GROUP, 3, Signature("barrier"), recorder.now())
        recorder.write()
    shown = [event["name"] for event in written(file) if event["ph"] == "X"]
    assert 0 < len(shown) < 20 and set(shown) == {"barrier()"}
    assert recorder.error.endswith("rank-7.json: No space left on device.")
    assert len(recorder._notes) == 0


def test_an_event_that_was_not_written_to_its_end_is_left_out():
    lines = ["[\n", line(mark("whole", 1.0, {})), '{"name":"cut o']
    assert [event["name"] for event in read_events(each.encode() for each in lines)] == ["whole"]


@pytest.fixture
def killed(tmp_path):
    """What two ranks of three have left of a timeline; the third was on another host."""
    path = tmp_path / "t.json"
    folder = merge.folder_of_parts(path)
    folder.mkdir()
    begin = {**mark("timeline begins", 0.0, {}), "parts": ["a:/x", "a:/y", "b:/z/rank-2.json"]}
    for rank in range(2):
        shown = [begin] if rank == 0 else []
        shown += [event(rank, rank, 5, ranks=2), event(rank, 6, 9, number=2)]
        (folder / f"rank-{rank}.json").write_text("[\n" + "".join(map(line, shown)) + '{"na')
    return path


def test_what_killed_ranks_have_left_can_be_merged(killed, capsys):
    assert merge.main([str(killed)]) == 0
    assert "merge again: b:/z/rank-2.json\n" in capsys.readouterr().out
    events = json.loads(killed.read_text())
    assert [e["args"]["wait_us"] for e in events if "wait_us" in e.get("args", {})] == [1, 0]
    assert sum("unmatched" in e.get("args", {}) for e in events) == 2
    assert not any({"match", "parts"} & event.keys() for event in events)
    (killed.parent / "t.json.parts" / "rank-2.json").write_text(line(event(2, 7, 9, number=2)))
    assert merge.main([str(killed)]) == 0
    assert capsys.readouterr().out == "" and "unmatched" not in killed.read_text()


def test_what_cannot_be_merged(killed, capsys):
    assert merge.main([str(killed.with_name("other.json"))]) == 1
    assert "expected what the ranks have recorded in" in capsys.readouterr().err
    killed.mkdir()
    with pytest.raises(OutputError, match=r"cannot write the timeline .*t\.json: .*directory"):
        merge.merge_what_is_there(killed)
