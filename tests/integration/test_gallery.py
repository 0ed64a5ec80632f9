"""The gallery: its page is what scripts/gallery.py makes of what was found, with small pictures."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT
from PIL import Image

from sciml_par.problems import catalogue_entries

PROGRAM: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "gallery.py"))
FOUND: dict[str, Any] = json.loads(PROGRAM["FOUND"].read_text(encoding="utf-8"))


def test_the_page_is_made_of_what_was_found() -> None:
    page = PROGRAM["PAGE"].read_text(encoding="utf-8")
    assert page == PROGRAM["page_of"](FOUND)
    assert page.count("`python scripts/solve.py ") == 8
    assert page.count("`python examples/") == len(FOUND) - 8 >= 10
    assert set(FOUND) <= {*catalogue_entries(), *PROGRAM["NAMES"]}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_problem_has_a_small_picture(name: str) -> None:
    picture = PROGRAM["PICTURES"] / f"{name}.png"
    assert picture.stat().st_size <= PROGRAM["MOST_BYTES"]
    with Image.open(picture) as opened:
        assert 400 <= opened.width <= 1100


def test_unknown_coefficients_and_an_early_end_are_told() -> None:
    of = {"error": 2e-3, "seconds": 300.0, "compile": 9.0, "cpu": 400.0, "load": 3.2, "cores": 2}
    of |= {"steps": 7, "steps_asked": 120, "unknowns": {"D": [0.1000001, 0.1]}}
    page = PROGRAM["page_of"]({"inverse-diffusion": of})
    assert "on 2 cores" in page and "| 7 of 120 |" in page
    assert "D = 0.1000001 (true 0.1)" in page


def test_a_picture_is_made_smaller_until_it_fits(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (200, 300, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    small = tmp_path / "small.png"
    PROGRAM["write_small"](tmp_path / "noise.png", small, 30_000)
    assert 10_000 < small.stat().st_size <= 30_000
    with pytest.raises(SystemExit, match="in its smallest scale"):
        PROGRAM["write_small"](tmp_path / "noise.png", small, 1000)
    assert small.stat().st_size > 10_000
