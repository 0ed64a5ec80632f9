"""scripts/inverse.py, run as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from launch import ROOT, launch

from sciml_par.results import Result

pytestmark = pytest.mark.launches

INVERSE = ROOT / "scripts" / "inverse.py"
SMALL = ("--points", "60", "--width", "8", "--depth", "1", "--steps", "120", "--level", "0.9")


def test_intervals_are_those_of_two_ranks_and_drawn(tmp_path: Path) -> None:
    found = []
    for ranks, plots in ((None, ["--no-plots"]), (2, [])):
        folder = tmp_path / str(ranks)
        words = ["inverse-diffusion", *SMALL, "--output", str(folder), *plots]
        out = launch(ranks, INVERSE, *words, folder=tmp_path, threads=1).succeeded().out
        (said,) = re.findall(r"^D .* ± .*, 90 % interval .* to .*$", out, re.MULTILINE)
        (member,) = json.loads((folder / "results.json").read_text())["members"]
        found.append(member["uncertainty"]["deviations"]["D"])
        assert f"{found[-1]:.2g}" in said
    assert found[0] == pytest.approx(found[1], rel=1e-2)
    assert not (tmp_path / "None" / "bands.png").exists()
    for name in ("bands", "corner", "next_observation"):
        assert (tmp_path / "2" / f"{name}.png").stat().st_size > 10_000
    uncertainty = Result.load(tmp_path / "2").uncertainty()
    assert uncertainty.deviations == pytest.approx(found[1:])
    (data,) = uncertainty.observations
    assert data.x.shape == (20, 2) and data.noise.std() == 0 < data.noise.mean()


def test_an_ensemble_is_refused(tmp_path: Path) -> None:
    ended = launch(None, INVERSE, "--mode", "ensemble", folder=tmp_path)
    assert ended.code == 2 and "one model that all ranks train" in ended.err


def test_problems_without_unknowns_are_refused(tmp_path: Path) -> None:
    for name, words in (("heat", "heat has no unknowns"), ("inverse-lorenz", "is a program now")):
        ended = launch(None, INVERSE, name, folder=tmp_path)
        assert ended.code == 2 and words in ended.err
