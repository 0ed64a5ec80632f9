"""scripts/parameter_server.py: three ranks average as they say, and their bytes are counted."""

from __future__ import annotations

import json
import runpy
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT, launch

from sciml_par.errors import InputError

SCRIPT = ROOT / "scripts" / "parameter_server.py"
COUNTED = ("one server", "sharded servers", "ring")


@pytest.mark.launches
def test_three_ranks_average_and_count_their_bytes(tmp_path: Path) -> None:
    # One float leaves two ranks without a shard; 3 MB are several messages to each server.
    sizes = {"4B": 4, "300KB": 300_000, "3MB": 3_000_000}
    options = ("--sizes", ",".join(sizes), "--rounds", "1", "--output", "kept")
    ended = launch(3, SCRIPT, *options, folder=tmp_path).succeeded()
    (run,) = json.loads((tmp_path / "kept" / "results.json").read_text())["runs"]
    busiest = {(each["method"], each["nbytes"]): each["busiest"] for each in run["exchanges"]}
    for nbytes in (300_000, 3_000_000):
        assert busiest["one server", nbytes] == 2 * nbytes
        assert busiest["sharded servers", nbytes] == 4 * nbytes // 3
        assert busiest["ring", nbytes] == 4 * nbytes // 3
    assert [busiest[method, 4] for method in COUNTED] == [8, 8, 8]
    assert all(each["seconds"] > 0 for each in run["exchanges"]) and len(run["exchanges"]) == 12
    assert "2.00 (3.00)" in ended.out and "1.33 (1.33)" in ended.out and "300 KB" in ended.out
    assert {path.name for path in (tmp_path / "kept").glob("parameter_server.*")} == {
        "parameter_server.png",
        "parameter_server.pdf",
    }


def test_a_wrong_mean_is_no_result() -> None:
    gradients = runpy.run_path(str(SCRIPT))["Gradients"](4000)
    gradients.check(gradients.own, "ring")  # of one rank
    gradients.own[-1] = np.nextafter(gradients.own[-1], np.float32(0))
    with pytest.raises(RuntimeError, match="ring: what 4,000 bytes gave is not their mean"):
        gradients.check(gradients.own, "ring")


def test_one_rank_alone_is_told_to_take_more(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(SCRIPT))
    options = Namespace(plots=True, sizes=[4], rounds=1)
    found = script["measure"](options)
    script["show"](options, [found | {"ranks": 1, "cores": 2}], Path("nowhere"))
    assert capsys.readouterr().out == (
        "One rank has nobody to average with: choose two ranks or more.\n"
    )
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4MB,1KB", [1000, 4_000_000]), ("6 B", [4]), ("1KiB,1024", [1024]), ("1GB", [10**9])],
)
def test_sizes_have_units(text: str, expected: list[int]) -> None:
    options = runpy.run_path(str(SCRIPT), run_name="server")["Options"]
    assert options.parse("", arguments=[f"--sizes={text}"]).sizes == expected


@pytest.mark.parametrize("text", ["", "1XB", "3B", "-4KB", "1.5KB", "4KB,,", "GiB"])
def test_what_is_no_size_is_refused(text: Any) -> None:
    options = runpy.run_path(str(SCRIPT), run_name="server")["Options"]
    with pytest.raises(InputError, match="expected sizes of 4 B or more"):
        options.parse("", arguments=[f"--sizes={text}"])
