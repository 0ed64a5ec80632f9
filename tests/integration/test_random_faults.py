"""benchmarks/faults.py: a handful of its faults, and that it sees what does not hold."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

from _faults_job import CHECKPOINT, CODE, FAILED, HANG, LEFT, MESSAGE, Ended, misses
from _faults_kinds import KINDS, MODES, Fault, draw, is_possible

pytestmark = pytest.mark.long

RANKS = (2, 3, 4)
KILLED = Fault("SIGKILL", "train", "training", ranks=2, rank=1)
SAID = "sciml_par: rank 1 of 2 on here was killed by signal 9 (SIGKILL)."


@pytest.mark.launches
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH")
def test_a_handful_of_faults(tmp_path):
    found = tmp_path / "found.json"
    options = ("--prepared", "--number", "3", "--seed", "1", "--modes", "eager", "--ranks", "2")
    kinds = ("--kinds", "SIGKILL,SIGSTOP,sys.exit,dtype,killed sentinel")
    program = ROOT / "benchmarks" / "faults.py"
    ended = launch(None, program, *options, *kinds, "--json", found, folder=tmp_path)
    assert ended.code == 0, ended.out + ended.err
    results = json.loads(found.read_text())["results"]
    assert len(results) == 3
    assert all(each["outcomes"] in (["held"], ["no fault"]) for each in results), ended.out
    assert sum(each["outcomes"] == ["held"] for each in results) >= 2, ended.out


def test_faults_can_be_drawn_again():
    faults = [draw(1, index, list(KINDS), RANKS) for index in range(500)]
    assert faults == [draw(1, index, list(KINDS), RANKS) for index in range(500)]
    assert {fault.kind for fault in faults} == {*KINDS}
    assert {fault.mode for fault in faults} == {*MODES}
    assert {fault.ranks for fault in faults} == {*RANKS}
    for fault in faults:
        known = fault.of_kind
        assert fault.rank < fault.ranks and fault.mode in known.modes
        assert fault.moment in known.moments
        assert is_possible(fault.mode, fault.moment)
    alone = [draw(1, index, list(KINDS), [2], ["eager"]) for index in range(50)]
    assert {fault.mode for fault in alone} == {"eager"}


def test_what_does_not_hold_is_seen(tmp_path):
    events = [(1.0, "written", 0), (2.0, "done", 0)]
    held = Ended(9, SAID, 1.5, 2.5, events[1:], [])

    def found(**other):
        return {*misses(KILLED, Ended(**{**vars(held), **other}), tmp_path)}

    assert found() == set()
    assert found(said="a rank is gone") == {MESSAGE}
    assert found(code=0) == {CODE}
    assert found(code=None) == {HANG}
    assert found(left=["sciml_par-socket"]) == {LEFT}
    assert found(events=events) == {CHECKPOINT}  # there is none
    done = [(2.0, "done", 0), (1.4, "done", 1)]
    assert found(code=0, events=done) == set()  # the rank had done all before
    assert found(code=0, events=[(2.0, "done", 0), (1.6, "done", 1)]) == {CODE}
    stopped = Fault("SIGSTOP", "train", "training", ranks=2, rank=1)
    assert {*misses(stopped, held, tmp_path)} == {FAILED}
