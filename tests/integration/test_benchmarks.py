"""benchmarks/collectives.py by size, rehearsed on the CPU, and benchmarks/windows.py."""

from __future__ import annotations

import json
import sys

import pytest
from launch import ROOT, launch, start

sys.path.append(str(ROOT / "benchmarks"))

import _by_size
import _runner

from sciml_par.parallel import current_world

pytestmark = pytest.mark.long

PROGRAM = ROOT / "benchmarks" / "collectives.py"


@pytest.mark.launches
def test_on_a_machine_without_a_gpu_it_measures_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    ended = launch(None, PROGRAM, "--device", "gpu", folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: expected a GPU; found none")
    assert "Nothing was tested or measured" in ended.err


@pytest.mark.launches
def test_two_ranks_by_mpi(tmp_path):
    started = start(None, PROGRAM, "--device", "cpu", "--quick", folder=tmp_path, threads=1)
    out = started.end(280.0).succeeded().out
    blocks = [block.splitlines() for block in out.split("\n\n")[1:-1]]
    assert [lines[0].split("  ")[0] for lines in blocks] == [
        f"2 ranks, MPI, {context}" for context in _by_size.CONTEXTS
    ]
    for lines in blocks:
        assert [line[:12].strip() for line in lines[1:]] == ["4 B", "16 KiB", "1 MiB"]
        assert len(lines[1].split()) == 5  # 4 B, returned, done, GB/s


@pytest.mark.all
@pytest.mark.launches
def test_windows_on_two_ranks(tmp_path):
    program = ROOT / "benchmarks" / "windows.py"
    ended = launch(2, program, "oscillator", folder=tmp_path, threads=1).succeeded()
    name, _, _, ranks, weights, error, *_ = ended.out.splitlines()[1].split()
    assert (name, ranks, weights) == ("oscillator", "2", "840") and float(error) < 1e-10


def test_one_rank(monkeypatch, capsys):
    """Whose allreduce would be left out, and is carried out here."""
    monkeypatch.setattr(_by_size, "QUICK_SIZES", (4, 1 << 12))
    monkeypatch.setattr(_by_size, "_QUICK_CALLS", 3)
    found = _by_size.measure_sizes("cpu", quick=True)
    assert len(found["rows"]) == 6 and found["ranks"] == 1
    for row in found["rows"]:
        assert 0 < row["returned_us"] <= row["done_us"]
        rate = row["nbytes"] / (1e3 * row["done_us"])
        assert row["gb_per_s"] == pytest.approx(rate)
    assert "GB/s copied" in _by_size.tables(found)


@pytest.mark.skipif(current_world().gpu is not None, reason="there is a GPU")
def test_a_rank_without_a_gpu_is_named():
    with pytest.raises(SystemExit, match="nothing was measured. rank 0: there is no GPU"):
        _by_size.group_for("gpu")


def test_a_wrong_result_is_an_error():
    sums = sum(_by_size.numbers(300, rank) for rank in range(2))
    _by_size.verify(sums / 2, 300, 2)
    with pytest.raises(ValueError, match="allreduce of 1.17188 KiB is wrong by 250.5"):
        _by_size.verify(sums, 300, 2)
    sums[299] = float("nan")
    with pytest.raises(ValueError, match="is wrong by nan"):
        _by_size.verify(sums / 2, 300, 2)


def test_candidates_are_timed_in_turns(tmp_path, capsys):
    order, times = [], iter((9.0, 9.0, 9.0, 9.0, 1.0, 10.0, 5.0, 30.0, 3.0, 20.0))

    def candidate(name):
        return lambda: (order.append(name), next(times))[1]

    names = ("a", "b")
    found = _runner.in_turns({name: candidate(name) for name in names}, rounds=3)
    assert found == {"a": 3.0, "b": 20.0} and order == ["a", "b"] * 5
    assert _runner.slowest(found) == found
    _runner.write_json(tmp_path / "deep" / "found.json", found)
    assert json.loads((tmp_path / "deep" / "found.json").read_text()) == found
