"""scripts/scaling.py: measured as a user measures, and its tables on made-up records."""

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
from sciml_par.programs import speed_up

SCRIPT = ROOT / "scripts" / "scaling.py"
Allreduce = runpy.run_path(str(SCRIPT))["Allreduce"]
LINK = Allreduce(latency=3e-6, seconds_per_byte=2e-10)


def test_the_fewest_ranks_count_as_ideal_wherever_they_stand() -> None:
    np.testing.assert_array_equal(speed_up([1, 2, 8], [12.0, 8.0, 3.0]), [1.0, 1.5, 4.0])
    np.testing.assert_array_equal(speed_up([8, 2, 4], [1.0, 3.0, 2.0]), [6.0, 2.0, 3.0])


def test_the_model_of_an_allreduce() -> None:
    expected = [0.0, 3e-6 + 1e-4, 9e-6 + 2e-10 * 875_000]
    np.testing.assert_allclose(LINK.seconds([1, 2, 8], 1e6), expected, rtol=1e-15)
    nbytes, spent = 1e6, LINK.seconds(4, 1e6)
    weak, strong = (
        LINK.efficiency([1, 4], nbytes, 1e-3, scaling=each) for each in ("weak", "strong")
    )
    np.testing.assert_allclose(weak, [1.0, 1e-3 / (1e-3 + spent)], rtol=1e-15)
    np.testing.assert_allclose(strong, [1.0, 1e-3 / (4 * (2.5e-4 + spent))], rtol=1e-15)


def test_small_arrays_count_as_much_as_large_ones_and_no_latency_is_negative() -> None:
    nbytes = np.array([8.0, 8.0, 1e8, 1e8])
    found = Allreduce.fitted([2] * 4, nbytes, LINK.seconds(2, nbytes) * [0.9, 1.1, 0.9, 1.1])
    # The minimum of (a/0.9 − 1)² + (a/1.1 − 1)² is at a = 0.98 for either term.
    share = (1 / 0.9 + 1 / 1.1) / (1 / 0.9**2 + 1 / 1.1**2)
    assert found.latency == pytest.approx(share * LINK.latency, rel=1e-3)
    assert found.seconds_per_byte == pytest.approx(share * LINK.seconds_per_byte, rel=1e-9)
    assert Allreduce.fitted([2, 2], [1e3, 1e6], [1e-7, 1e-3]).latency == 0.0


@pytest.mark.long
@pytest.mark.launches
def test_one_and_two_ranks_are_measured_and_compared(tmp_path: Path) -> None:
    options = ("--ranks", "1,2", "--cases", "A", "--steps", "20", "--rounds", "1")
    ended = launch(None, SCRIPT, *options, folder=tmp_path).succeeded()
    folder = tmp_path / "runs" / "scaling"
    one, two = json.loads((folder / "results.json").read_text())["runs"]
    assert (one["ranks"], two["ranks"]) == (1, 2)
    assert one["allreduces"] == []
    sizes = [each["nbytes"] for each in two["allreduces"]]
    assert 321 * 4 in sizes and sizes == sorted(sizes) and len(sizes) == 6
    assert all(each["seconds"] > 0 for each in two["allreduces"])
    strong = [run["cases"]["A"]["strong"][0] for run in (one, two)]
    weak = [run["cases"]["A"]["weak"][0] for run in (one, two)]
    assert row_of(ended.out, "strong scaling", 2)[-2] == f"{strong[0] / (2 * strong[1]):.2f}" or (
        two["cores"] < 2
    )
    assert f"{weak[0] / weak[1]:.2f}" in row_of(ended.out, "weak scaling", 2)
    assert ("More ranks than cores" in ended.out) == (two["cores"] < 2)
    assert "InfiniBand HDR" in ended.out
    assert {path.name for path in folder.glob("scaling*")} == {"scaling_A.png", "scaling_A.pdf"}


def test_exact_records_give_the_model_back(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(records(cores=4), capsys)
    assert "on 2, 4 ranks, fitted: T(P, n) = 3 µs · log₂ P + n (P − 1)/P / (5 GB/s)" in out
    assert "to 0 % of each time at worst" in out
    spent = float(LINK.seconds(4, 321 * 4))
    share = f"{1e-4 / (1e-4 + spent):.2f}"
    cells = row_of(out, "weak scaling", 4)
    assert cells == ["4", f"{1e6 * (1e-4 + spent):,.1f}", f"{1e6 * spent:,.1f}", share, share]
    assert "*" not in out


def test_ranks_without_a_core_each_are_marked_and_fit_no_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown(records(cores=2), capsys)
    assert "Allreduce on 2 ranks, fitted" in out
    assert row_of(out, "weak scaling", 4)[:2] == ["4", "*"]
    assert row_of(out, "weak scaling", 2)[1] != "*"
    out = shown(records(cores=1), capsys)
    assert "no model is fitted" in out


def test_without_one_rank_nothing_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(records(cores=4)[1:], capsys)
    assert "Nothing is predicted without a run on one rank" in out and "P = 512" not in out


def test_a_network_of_ones_own_is_predicted_alone(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(SCRIPT))
    link = script["named_network"]("my link=2,12.5")
    out = shown(records(cores=4), capsys, network=[link])
    assert "my link" in out and "10 GbE" not in out
    p, n = 512, 321 * 4
    spent = 4e-6 * np.log2(p) + 2 / 12.5e9 * n * (p - 1) / p
    assert f"{1e-4 / (1e-4 + spent):.2f}" in [
        line.split()[-1] for line in out.splitlines() if "A, weak" in line
    ]


@pytest.mark.parametrize("text", ["my link", "=1,2", "a=1", "a=1,0", "a=-1,2", "a=x,2", "a=1,2,3"])
def test_what_is_no_network_is_refused(text: str) -> None:
    options = runpy.run_path(str(SCRIPT), run_name="scaling")["Options"]
    with pytest.raises(InputError, match="expected NAME=LATENCY,GB/S"):
        options.parse("", arguments=["--network", text])


def test_cases_are_named_once() -> None:
    options = runpy.run_path(str(SCRIPT), run_name="scaling")["Options"]
    assert options.parse("", arguments=[]).cases == ["A", "B"]
    assert options.parse("", arguments=["--cases", "C"]).cases == ["C"]
    for text in ("A,A", "D", ""):
        with pytest.raises(InputError, match="expected some of A,B,C"):
            options.parse("", arguments=["--cases", text])


def records(cores: int) -> list[dict[str, Any]]:
    """Return steps of 100 µs and allreduces with the exact cost of `LINK`."""
    found = []
    for ranks in (1, 2, 4):
        sizes = (8, 321 * 4, 1 << 20) if ranks > 1 else ()
        spent = float(LINK.seconds(ranks, 321 * 4))
        times = {"weak": [1e-4 + spent], "strong": [1e-4 / ranks + spent]}
        found.append(
            {
                "ranks": ranks,
                "threads": 1,
                "cores": cores,
                "cases": {"A": {"parameters": 321, **times}},
                "allreduces": [
                    {"nbytes": n, "seconds": float(LINK.seconds(ranks, n))} for n in sizes
                ],
            }
        )
    return found


def shown(
    found: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], network: Any = None
) -> str:
    """Return the script's output for these records."""
    script = runpy.run_path(str(SCRIPT))
    options = Namespace(cases=["A"], precision="float32", network=network, plots=False)
    script["show"](options, found, Path())
    return capsys.readouterr().out


def row_of(out: str, heading: str, ranks: int) -> list[str]:
    """Return the cells of the row for `ranks` ranks in the table under this heading."""
    lines = out[out.index(heading) :].splitlines()
    return next(line.split() for line in lines if line.split()[:1] == [str(ranks)])
