"""The timeline of a program that ends, and of one that dies in a compiled loop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from launch import start

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, sys, threading, time
os.environ["SCIML_PAR_TIMELINE"] = "timeline.json"
import sciml_par.parallel as sp

sp.init()
import tensorflow as tf


@tf.function(jit_compile=True)
def loop(steps, x):
    step = lambda i, x: (i + 1, sp.allreduce(x, name="step"))
    return tf.while_loop(lambda i, x: i < steps, step, (0, x))[1]


x = tf.fill([3], float(sp.rank()))
loop(tf.constant(100), x)
if sys.argv[1] == "dies":
    if sp.rank() == 1:
        threading.Timer(2.0, os._exit, args=[3]).start()
    loop(tf.constant(2_000_000_000), x)
elif sys.argv[1] == "continues":
    if sp.rank() == 1:
        time.sleep(1.0)
        sp.barrier()
elif sp.rank() == 0:
    time.sleep(1.0)  # the other rank ends first, and must not be left out
"""


def test_a_timeline_of_a_program_that_ends_or_dies(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    folders = [tmp_path / "ends", tmp_path / "dies"]
    running = []
    for folder in folders:
        folder.mkdir()
        running.append(start(2, "../program.py", folder.name, folder=folder, threads=1))
    ends, dies = (each.end() for each in running)
    ends.succeeded()
    assert dies.code != 0

    # Nobody called stop_timeline: the end of the program did.
    ended = read(folders[0])
    assert (steps(ended, 0), steps(ended, 1)) == (100, 100)
    assert ended[-1]["name"] == "timeline ends"
    assert ended[-1]["args"] == {"unmatched": 0}
    assert sorted(each.name for each in folders[0].iterdir()) == ["timeline.json"]

    for rank in range(2):  # Perfetto reads an array without its end
        lines = (folders[1] / f"timeline.json.rank-{rank}").read_text().splitlines()
        events = [json.loads(each[:-1]) for each in lines if each.endswith("},")]
        assert steps(events, rank) > 100
    assert not (folders[1] / "timeline.json").exists()


def test_a_rank_that_continues_alone_is_reported_although_the_other_merges(tmp_path: Path) -> None:
    """Rank 0 waits in its shutdown for what rank 1 has recorded, and rank 1 for it in a barrier."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    ended = start(2, "program.py", "continues", folder=tmp_path, threads=1).end()
    assert ended.code != 0
    assert "Rank 0 ended the program while rank 1 waits in barrier()" in ended.err, ended.err


def read(folder: Path) -> list[dict]:
    return json.loads((folder / "timeline.json").read_text())


def steps(events: list[dict], rank: int) -> int:
    return sum(event["name"] == "step" and event["args"]["rank"] == rank for event in events)
