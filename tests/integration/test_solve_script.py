"""scripts/solve.py, run as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import ROOT, launch

from sciml_par.problems import catalogue_entries

pytestmark = pytest.mark.launches

SOLVE = ROOT / "scripts" / "solve.py"
SMALL = ("--points", "100", "--boundary", "40", "--width", "6", "--depth", "1", "--steps", "6")


def test_it_trains_what_the_options_say_and_draws_slices(tmp_path: Path) -> None:
    words = ["heat", *SMALL, "--output", "found"]
    said = launch(None, SOLVE, *words, folder=tmp_path, threads=1).succeeded().out
    assert said.startswith(f"heat: {catalogue_entries()['heat'].equation}\n")
    (member,) = json.loads((tmp_path / "found" / "results.json").read_text())["members"]
    assert (member["steps"], member["problem"]) == (6, "heat")
    assert (tmp_path / "found" / "slices.png").stat().st_size > 10_000


def test_the_list_is_printed_without_results(tmp_path: Path) -> None:
    out = launch(None, SOLVE, "--list", folder=tmp_path).succeeded().out
    assert [line.split()[0] for line in out.splitlines()] == list(catalogue_entries())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_tolerance_takes_the_place_of_a_training(tmp_path: Path) -> None:
    words = ["poisson-1d", "--tolerance", "1e-8", "--output", "found", "--no-plots"]
    out = launch(None, SOLVE, *words, folder=tmp_path, threads=1).succeeded().out
    assert "the tolerance is met" in out
    (member,) = json.loads((tmp_path / "found" / "results.json").read_text())["members"]
    error = member["error"]
    assert member["relative_l2_error"] <= (1 + error["own_error"]) * error["relative"]
    assert error["relative"] <= 1e-8
    (tmp_path / "load.py").write_text(
        "from sciml_par.parallel import is_initialized\nfrom sciml_par.results import Result\n"
        "print(Result.load('found').predict([0.3]).mean.shape, is_initialized())\n"
    )
    assert launch(None, "load.py", folder=tmp_path).succeeded().out == "(1, 1) False\n"
    ended = launch(None, SOLVE, *words, "--steps", "5", folder=tmp_path)
    assert ended.code == 2
    assert "--steps is for a training" in ended.err
