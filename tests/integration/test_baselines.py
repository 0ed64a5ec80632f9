"""benchmarks/baselines.py: its methods converge, it runs, and its page has what was measured."""

from __future__ import annotations

import json
import sys

import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

import baselines as report
from _baselines_methods import DEEPXDE, METHODS, SOLVE, TRAIN
from _baselines_problems import CASES

PROGRAM = ROOT / "benchmarks" / "baselines.py"

DIRECT = [
    pytest.param(
        *(name, method),
        id=f"{name}-{method.label}",
        # Of walks on spheres, in five dimensions.
        marks=[pytest.mark.all] if name == "poisson-10d" else [],
    )
    for name, methods in METHODS.items()
    for method in methods.values()
    if method.label not in (SOLVE, TRAIN, DEEPXDE)
]


def test_the_tables_of_the_page_are_those_of_the_runs() -> None:
    page, runs = report.PAGE.read_text(encoding="utf-8"), json.loads(report.STORED.read_text())
    assert report.filled(page, runs["runs"]) == page
    for name in CASES:
        assert report.table(name, runs["runs"]) in page


@pytest.mark.long
@pytest.mark.parametrize(("name", "method"), DIRECT)
def test_a_method_converges(name, method):
    """Its second setting is more accurate than the first; coefficients are those of the data."""
    pytest.importorskip("skfem")
    found = [method.solver()(*setting) for setting in method.settings[:2]]
    if CASES[name].inverse:
        assert all(each["covers"] > 0.9 for each in found)
    else:
        first, second = (CASES[name].error(solution) for solution in found)
        assert second < 0.7 * first or second < 1e-12


@pytest.mark.long
@pytest.mark.launches
def test_it_measures_the_package_and_a_simple_method(tmp_path):
    file = tmp_path / "found.json"
    words = [PROGRAM, "--quick", "--problems", "heat", "--json", str(file)]
    ended = launch(None, *words, "--methods", SOLVE, "Chebyshev", folder=tmp_path).succeeded()
    solved, simple = json.loads(file.read_text())["runs"]
    assert (solved["method"], simple["method"]) == (SOLVE, "Chebyshev")
    assert solved["error"] < CASES["heat"].tolerances[0] and solved["estimate"] > 0
    assert 0 < simple["cpu"] < solved["cpu"]
    assert "| sp.solve, tolerance 0.001 |" in ended.out
    assert file.with_suffix(".png").stat().st_size > 0
