"""MPI's start waits for all ranks, but not for ever."""

from __future__ import annotations

import shutil

import pytest
from launch import launch

PROGRAM = """
import os, sys, time
import sciml_par.parallel as par

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    time.sleep(60 if sys.argv[1] == "never" else 2)
par.init(stall_limit=4.0 if sys.argv[1] == "never" else None)
os.write(1, b"started")
"""

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]


def test_a_start_that_waits_ends_at_the_limit(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = launch(2, "program.py", "never", folder=tmp_path)
    assert ended.code != 0 and "started" not in ended.out
    assert "in _wait_until_all_ranks_call_init" in ended.err, ended.err


def test_a_late_rank_is_waited_for(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = launch(2, "program.py", "late", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.count("started") == 2
