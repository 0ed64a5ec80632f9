"""The timeline: every collective of every rank in the file, with name, bytes, wait, transfer."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from pathlib import Path

import pytest
import tensorflow as tf
from ranks import compiled, values

import sciml_par.parallel as sp
from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.timeline import recorder, timeline

SEVERAL = pytest.mark.ranks(least=2, reason="one rank exchanges nothing")


@pytest.fixture
def folder(tmp_path_factory) -> Path:
    """One folder for all ranks."""
    mine = str(tmp_path_factory.mktemp("timeline"))
    return Path(sp.current_world().communicator.broadcast_object(mine))


@pytest.fixture
def recorded(folder):
    """Begins a timeline; a call ends it and gives its events, on every rank."""

    def end() -> list[dict]:
        sp.stop_timeline()
        return json.loads((folder / "timeline.json").read_text())

    sp.start_timeline(folder / "timeline.json")
    yield end
    sp.stop_timeline()


def of(rank: int, events: list[dict], *categories: str) -> list[dict]:
    """The rank's events of these categories."""
    return [e for e in events if e["pid"] == rank + 1 and e.get("cat") in categories]


def metadata(events: list[dict], name: str) -> dict[tuple[int, int], dict]:
    return {(e["pid"], e["tid"]): e["args"] for e in events if e["name"] == name}


def test_ranks_and_groups_have_names(recorded):
    sp.barrier()
    events = recorded()
    names = metadata(events, "process_name")
    host = os.uname().nodename
    assert {pid: args["name"] for (pid, _), args in names.items()} == {
        r + 1: f"rank {r} on {host}" for r in range(sp.size())
    }
    (group,) = {args["name"] for args in metadata(events, "thread_name").values()}
    assert group == "world"


@SEVERAL
def test_each_collective_has_its_name_and_bytes(recorded):
    group, rank = sp.current_world().communicator, sp.rank()
    before = group.progress.sequence
    x = tf.constant(values(rank, (23, 2), "float32"))  # of a shape that no other test agrees on
    for _ in range(2):
        sp.allreduce(x, sp.Sum)
    sp.broadcast(tf.cast(x, tf.float64), 1, name="weights")
    sp.allgather(tf.zeros([rank + 1, 5], tf.int16))
    sp.barrier()
    events = recorded()
    for r in range(sp.size()):
        mine = of(r, events, "collective")
        assert [(e["name"], e["args"]["bytes"]) for e in mine] == [
            ("allreduce(float32 [23, 2], Sum)", 184),
            ("allreduce(float32 [23, 2], Sum)", 184),
            ("weights", 368),
            ("allgather(int16 [any, 5])", (r + 1) * 10),
        ]
        first, second, named, _ = (e["args"] for e in mine)
        assert (first["rank"], first["group"], first["transport"]) == (r, "world", "MPI")
        assert first["agreed"] and "agreed" not in second
        assert [first["number"], second["number"]] == [before + 1, before + 2]
        assert named["call"] == "broadcast(float64 [23, 2], root 1, name 'weights')"
        assert of(r, events, "exchange")[-1]["name"] == "barrier()"
    assert not [e for e in events if "unmatched" in e.get("args", {}) and e["ph"] == "X"]


@SEVERAL
def test_who_comes_last_does_not_wait(recorded):
    last = sp.size() - 1
    x = tf.fill([3], float(sp.rank()))
    sp.allreduce(x)
    sp.barrier()
    if sp.rank() == last:
        time.sleep(0.3)
    sp.allreduce(x)
    events = recorded()
    waits = [of(r, events, "collective")[-1]["args"]["wait_us"] for r in range(sp.size())]
    assert min(waits[:last]) > 150_000
    assert waits[last] < 100_000
    assert all(of(r, events, "collective")[-1]["args"]["transfer_us"] > 0 for r in range(sp.size()))


@SEVERAL
def test_clocks_of_other_hosts_are_put_right(folder, monkeypatch):
    """The last rank, as if on a separate host, is a thousand seconds ahead."""
    world, last = sp.current_world(), sp.size() - 1
    monkeypatch.setattr(world, "hosts", [0] * last + [last])
    if sp.rank() == last:
        ours = time.monotonic_ns
        monkeypatch.setattr(time, "monotonic_ns", lambda: ours() + 1000 * 10**9)
        monkeypatch.setattr(recorder.Recorder, "now", staticmethod(time.monotonic_ns))
    sp.start_timeline(folder / "timeline.json")
    sp.allreduce(tf.fill([3], float(sp.rank())))
    sp.stop_timeline()
    events = json.loads((folder / "timeline.json").read_text())
    (begun,) = {e["ts"] for e in events if e["name"] == "timeline begins"}
    for r in range(sp.size()):
        (event,) = of(r, events, "collective")
        assert 0 <= event["args"]["wait_us"] < 100e6
        assert begun <= event["ts"] < 100e6


@SEVERAL
def test_a_compiled_loop_shows_each_step(recorded):
    def steps(x):
        body = lambda i, y: (i + 1, sp.allreduce(y, sp.Average, name="step"))  # noqa: E731
        return [tf.while_loop(lambda i, y: i < 50, body, (0, x))[1]]

    compiled(steps)(tf.fill([4], float(sp.rank())))
    events = recorded()
    for r in range(sp.size()):
        shown = [e for e in of(r, events, "collective") if e["name"] == "step"]
        assert len(shown) == 50
        assert [e["args"].get("agreed", False) for e in shown] == [True] + [False] * 49
        assert all(e["args"]["bytes"] == 16 for e in shown)


@SEVERAL
def test_what_a_rank_does_for_others_after_it_has_joined_shows(recorded):
    for _ in range(1 if sp.rank() == sp.size() - 1 else 3):
        sp.allreduce(tf.fill([2], float(sp.rank())), name="uneven")
    sp.join()
    events = recorded()
    for r in range(sp.size()):
        shown = [e for e in of(r, events, "collective") if e["name"] == "uneven"]
        assert len(shown) == 3 and all("wait_us" in e["args"] for e in shown)


def test_groups_have_rows_of_their_own(recorded):
    world = sp.current_world().communicator
    group = world.split(sp.rank() % 2)
    for _ in range(sp.rank() % 2 + 1):  # the groups need not do the same
        group.barrier()
    events = recorded()
    names = {key: args["name"] for key, args in metadata(events, "thread_name").items()}
    for r in range(sp.size()):
        parity = r % 2
        mine = [e for e in of(r, events, "exchange") if e["args"]["group"] != "world"]
        assert len(mine) == parity + 1
        assert {names[e["pid"], e["tid"]] for e in mine} == {mine[0]["args"]["group"]}
        assert mine[0]["args"]["group"].endswith(f".{parity}")
        assert all("wait_us" in e["args"] for e in mine)


def test_it_records_from_its_start_to_its_end(folder):
    group = sp.current_world().communicator
    group.barrier()
    sp.start_timeline(folder / "one.json")
    group.barrier()
    sp.stop_timeline()
    group.barrier()
    sp.stop_timeline()  # there is none: nothing happens
    events = json.loads((folder / "one.json").read_text())
    assert [len(of(r, events, "exchange")) for r in range(sp.size())] == [1] * sp.size()
    assert events[-1]["args"] == {"unmatched": 0}
    assert not any(each.progress.observers for each in group.all_groups)
    assert [each.name for each in folder.iterdir()] == ["one.json"]


def test_hosts_need_not_share_a_folder(folder, tmp_path, monkeypatch):
    """The last rank does not see the others' folder, and so writes elsewhere."""
    last = sp.rank() == sp.size() - 1 > 0
    if last:
        elsewhere = tmp_path / "not there" / f"t.json.rank-{sp.rank()}"
        monkeypatch.setattr(timeline, "part_of", lambda path, rank: elsewhere)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sp.start_timeline(folder / "t.json")
    sp.barrier()
    assert len(list(tmp_path.iterdir())) == last
    sp.stop_timeline()
    events = json.loads((folder / "t.json").read_text())
    assert [len(of(r, events, "exchange")) for r in range(sp.size())] == [1] * sp.size()
    assert list(tmp_path.iterdir()) == []
    sp.barrier()
    assert [each.name for each in folder.iterdir()] == ["t.json"]


@pytest.mark.parametrize("left", ("t.json", "t.json.rank-7"))
def test_what_an_earlier_program_has_left_stays(folder, left):
    if sp.rank() == 0:
        (folder / left).write_text("precious")
    sp.barrier()
    with pytest.raises(OutputError, match=f"{left} already exists. Remove it"):
        sp.start_timeline(folder / "t.json")
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [(left, "precious")]
    sp.barrier()
    sp.start_timeline(folder / "t.json", overwrite=True)
    sp.stop_timeline()
    sp.barrier()
    assert [each.name for each in folder.iterdir()] == ["t.json"]
    assert json.loads((folder / "t.json").read_text())


def test_a_folder_that_is_missing(folder):
    with pytest.raises(OutputError, match="cannot write a timeline .*: .*No such file"):
        sp.start_timeline(folder / "nowhere" / "timeline.json")
    assert sp.current_world().timeline is None


def test_one_at_a_time(recorded, folder):
    with pytest.raises(InputError, match=r"call stop_timeline\(\) first"):
        sp.start_timeline(folder / "second.json")
    assert not (folder / "second.json").exists()
    recorded()


class FullDisk(io.FileIO):
    """Takes 100 bytes in all."""

    def write(self, data):
        room = 100 - self.tell()
        return super().write(data[:room]) if room > 0 else full()


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("when", ("while it records", "in the end"))
def test_a_full_disk_is_an_error_on_all_and_leaves_the_records(folder, monkeypatch, when):
    """The disk of the last rank, and that of rank 0; the program continues."""
    last = sp.size() - 1
    if when == "in the end":
        monkeypatch.setattr(timeline, "merge", full)
    elif sp.rank() == last:
        monkeypatch.setattr(timeline, "_open_part", lambda *_: FullDisk(folder / "full", "xb"))
    sp.start_timeline(folder / "t.json")
    sp.barrier()
    what = f"rank {last} cannot write .*/full" if when == "while it records" else "cannot write the"
    with pytest.raises(
        OutputError, match=rf"{what}.*: No space left.* are left in .*t\.json\.rank"
    ):
        sp.stop_timeline()
    assert sp.current_world().timeline is None
    left = [] if when == "while it records" and sp.rank() == last else [sp.rank()]
    for rank in left:
        assert "barrier" in (folder / f"t.json.rank-{rank}").read_text()
