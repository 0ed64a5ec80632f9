"""benchmarks/catalogue.py: what it keeps, what it says, and how it compares numbers of ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

import _catalogue_ranks
import catalogue
from _catalogue_solving import circumstances

pytestmark = pytest.mark.long

PROGRAM = ROOT / "benchmarks" / "catalogue.py"
NUMBERS = {"unknowns": 0.0, "steps": 10, "seconds": 2.0, "compile": 3.0, "cpu": 8.0}


def run(error: float, seed: int = 0, **more: Any) -> dict[str, Any]:
    return {"seed": seed, "error": error, "with": circumstances("heat", []), **NUMBERS, **more}


def test_a_row_has_the_medians_and_says_what_is_not_reached() -> None:
    options = catalogue.parsed(["heat"])
    runs = [run(1e-7), run(3e-3, 1), run(2e-7, 2)]
    row = catalogue.line("heat", runs, options)
    assert row == ("| `heat` | 2.0e-07 | 1e-04 |  | 10 | 2 | 3 | 8 | 1.0e-07, 3.0e-03, 2.0e-07 |")
    assert row.count("|") == catalogue.HEADINGS.splitlines()[0].count("|")
    assert "2.0e-03, not reached" in catalogue.line("heat", [run(2e-3)], options)
    assert "not reached" in catalogue.line("heat", [run(1e-7, unknowns=2e-3)], options)


def test_seconds_of_the_processor_and_noise_decide_where_they_are_asked_for() -> None:
    slow, near = [run(1e-7, cpu=301.0)], [run(1.0, unknowns=1.9e-2)]
    assert "not" not in catalogue.line("heat", slow, catalogue.parsed([]))
    assert "not reached" in catalogue.line("heat", slow, catalogue.parsed(["--cpu"]))
    noise = catalogue.parsed(["--noise", "0.01"])
    assert "not" not in catalogue.line("heat", near, noise)
    assert "not reached" in catalogue.line("heat", [run(1.0, unknowns=2.1e-2)], noise)


def test_runs_with_other_settings_are_made_again() -> None:
    options, noise = catalogue.parsed([]), catalogue.parsed(["--noise", "0.01"])
    read = json.loads(json.dumps(run(1e-7, 1)))
    assert catalogue.current(read, "heat", options)
    assert not catalogue.current(read, "helmholtz", options)
    assert not catalogue.current(read, "beam", options)
    assert not catalogue.current(read, "heat", noise)
    noisy = read | {"with": circumstances("heat", ["seed=1", "noise=0.01"])}
    assert catalogue.current(noisy, "heat", noise)
    assert not catalogue.current(noisy | {"seed": 2}, "heat", noise)


def test_what_ranks_find_is_compared_relatively(tmp_path: Path) -> None:
    u = np.array([[[2.0], [np.nan], [-4.0]]])
    files = []
    for ranks, factor, moved in ((1, 1.0, 0.0), (2, 1.0 + 1e-9, 4e-6)):
        file = _catalogue_ranks.file_of(tmp_path, "heat", ranks)
        np.savez(file, losses=factor * np.array([1e3, 1e-3]), prediction=u + moved)
        files.append(np.load(file))
    found = _catalogue_ranks.difference(files)
    assert found == pytest.approx({"steps": 1, "losses": 1e-9, "prediction": 1e-6}, rel=1e-6)
    assert _catalogue_ranks.row("heat", found).endswith("more than by rounding")
    assert "more" not in _catalogue_ranks.row("heat", found | {"prediction": 1e-9})


def test_a_few_steps_with_the_settings_of_a_problem(tmp_path: Path) -> None:
    _catalogue_ranks.train_each(["beam"], 2, tmp_path)
    found = np.load(_catalogue_ranks.file_of(tmp_path, "beam", 1))
    assert found["losses"].shape == (3,) and found["losses"][-1] < found["losses"][0]
    assert found["prediction"].shape == (401, 1)


@pytest.mark.launches
def test_a_problem_is_solved_once(tmp_path: Path) -> None:
    words = [PROGRAM, "beam", "--seeds", "1", "--json", str(tmp_path / "found.json")]
    first = launch(None, *words, folder=tmp_path)  # whose progress goes to standard error
    assert first.code == 0 and "Warning" not in first.err, first.err
    (made,) = json.loads((tmp_path / "found.json").read_text())["beam"]["runs"]
    assert made["error"] < 1e-4 and 0 < made["seconds"] < made["cpu"] + made["compile"]
    again = launch(None, *words, folder=tmp_path)
    assert again.code == 0, again.err
    assert "compiling" in first.err and "compiling" not in again.err
    assert f"| {made['error']:.1e} |" in again.out
