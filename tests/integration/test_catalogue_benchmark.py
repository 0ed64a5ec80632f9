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

import catalogue
from _runner import stored

pytestmark = pytest.mark.long

PROGRAM = ROOT / "benchmarks" / "catalogue.py"
NUMBERS = {"unknowns": 0.0, "steps": 10, "seconds": 2.0, "compile": 3.0, "cpu": 8.0}


def run(error: float, seed: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": "heat", "seed": seed, "error": error, **NUMBERS, **more}


def verdict(of: dict[str, Any], *words: str) -> str:
    return catalogue.summary("heat", [of], catalogue.parsed(list(words)))["verdict"]


def test_a_row_has_the_medians_and_says_what_is_not_reached() -> None:
    runs = [run(1e-7), run(3e-3, 1), run(2e-7, 2)]
    row = catalogue.summary("heat", runs, catalogue.parsed(["heat"]))
    assert row == {
        **{"name": "heat", "seeds": 3, "error": 2e-7, "goal": 1e-4, "largest": 3e-3},
        **{"verdict": "", **NUMBERS},
    }
    assert verdict(run(2e-3)) == "not reached" == verdict(run(1e-7, unknowns=2e-3))


def test_seconds_of_the_processor_and_noise_decide_where_they_are_asked_for() -> None:
    slow, near = run(1e-7, cpu=301.0), run(1.0, unknowns=1.9e-2)
    assert verdict(slow) == "" and verdict(slow, "--cpu") == "not reached"
    assert verdict(near, "--noise", "0.01") == ""
    assert verdict(near | {"unknowns": 2.1e-2}, "--noise", "0.01") == "not reached"


def test_runs_with_other_settings_are_made_again() -> None:
    one = catalogue.settings("heat", 1, None)
    assert one == json.loads(json.dumps(one)) == catalogue.settings("heat", 2, None)
    others = [catalogue.settings(*each) for each in (("helmholtz", 1, None), ("beam", 1, None))]
    others += [catalogue.settings("heat", seed, 0.01) for seed in (1, 2)]
    assert all(one != each for each in others) and others[-1] != others[-2]


def test_what_ranks_find_is_compared_relatively() -> None:
    u = np.array([[[2.0], [np.nan], [-4.0]]])
    runs = [
        {"losses": factor * np.array([1e3, 1e-3]), "prediction": u + moved}
        for factor, moved in ((1.0, 0.0), (1.0 + 1e-9, 4e-6))
    ]
    found = catalogue.difference(runs)
    assert found.pop("verdict") == "more than by rounding"
    assert found == pytest.approx({"steps": 1, "losses": 1e-9, "prediction": 1e-6}, rel=1e-6)
    assert not catalogue.difference([runs[0], runs[0] | {"losses": runs[1]["losses"]}])["verdict"]


def test_a_few_steps_with_the_settings_of_a_problem() -> None:
    found = catalogue.train_each(["beam"], 2)["beam"]
    assert len(found["losses"]) == 3 and found["losses"][-1] < found["losses"][0]
    assert np.shape(found["prediction"]) == (401, 1)


@pytest.mark.launches
def test_a_problem_is_solved_once(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    words = [PROGRAM, "beam", "--seeds", "1", "--json", str(file)]
    first = launch(None, *words, folder=tmp_path)
    assert first.code == 0 and "Warning" not in first.err, first.err
    (made,) = stored(file)["runs"]
    assert made["error"] < 1e-4 and 0 < made["seconds"] < made["cpu"] + made["compile"]
    again = launch(None, *words, folder=tmp_path).succeeded()
    assert stored(file)["runs"] == [made]
    assert first.out.count("\nbeam ") == 2 and again.out.count("\nbeam ") == 1
