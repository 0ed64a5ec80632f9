"""scripts/inverse.py, run as a user runs it."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from launch import ROOT, launch

from sciml_par.errors import InputError
from sciml_par.results import Result

INVERSE = ROOT / "scripts" / "inverse.py"
SMALL = ("--points", "60", "--width", "8", "--depth", "1", "--steps", "120", "--level", "0.9")


@pytest.mark.launches
def test_intervals_are_told_kept_and_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    words = ["inverse-diffusion", *SMALL, "--output", "found"]
    out = launch(None, INVERSE, *words, folder=tmp_path, threads=1).succeeded().out
    (said,) = re.findall(r"^D .* ± .*, 90 % interval .* to .*$", out, re.MULTILINE)
    (member,) = json.loads((folder / "results.json").read_text())["members"]
    deviation = member["uncertainty"]["deviations"]["D"]
    assert f"{deviation:.2g}" in said
    for name in ("bands", "corner", "next_observation"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    uncertainty = Result.load(folder).uncertainty()
    assert uncertainty.deviations == pytest.approx([deviation])
    (data,) = uncertainty.observations
    assert data.x.shape == (20, 2) and data.noise.std() == 0 < data.noise.mean()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mode", "ensemble"], "one model that all ranks train"),
        (["heat"], "heat has no unknowns"),
        (["inverse-lorenz"], "is a program now"),
    ],
)
def test_what_has_no_intervals_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        runpy.run_path(str(INVERSE))["Options"].parse("", arguments=words, program="inverse")
