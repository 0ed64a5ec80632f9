"""examples/: short programs, each of which runs from any folder, also on two ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _programs import FOLDER, NAMES, equation_of, example
from launch import ROOT, launch

PAGE = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_a_page_with_the_settings_of_a_training(name: str) -> None:
    file = FOLDER / f"{name.replace('-', '_')}.py"
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert f'result.save("runs/{name}", overwrite=True)' in source
    equation = equation_of(name).replace("|h|", "\\|h\\|")
    assert f"| `{file.name}` | {equation} |" in PAGE
    problem, training = example(name).problem(), example(name).TRAINING
    network = training["network"](problem.domain.dimension, problem.network_outputs)
    assert network.count_params() > 0 and training["precision"] == "float64"


@pytest.mark.long
@pytest.mark.launches
@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("name", "ranks", "least"), [("oscillator", 2, 1e-9), ("beam", None, 1e-6)]
)
def test_a_program_solves_its_problem(
    name: str, ranks: int | None, least: float, tmp_path: Path
) -> None:
    ended = launch(ranks, FOLDER / f"{name}.py", folder=tmp_path, threads=1).succeeded()
    (member,) = json.loads((tmp_path / "runs" / name / "results.json").read_text())["members"]
    assert member["relative_l2_error"] < least and f"{member['relative_l2_error']:.2e}" in ended.out
    assert (tmp_path / "runs" / name / "prediction.png").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.launches
def test_a_few_steps_of_programs_of_all_kinds(tmp_path: Path) -> None:
    """References, periodic networks and observations."""
    names = ("allen-cahn", "inverse-lorenz")
    program = tmp_path / "few.py"
    program.write_text(
        f"""
import runpy, sys
import sciml_par as sp
sys.path.insert(0, {str(FOLDER)!r})
train = sp.train
sp.train = lambda problem, **given: train(problem, **given | {{"steps": 2, "progress": False}})
for name in {names!r}:
    runpy.run_path({str(FOLDER)!r} + "/" + name.replace("-", "_") + ".py", run_name="__main__")
""",
        encoding="utf-8",
    )
    launch(None, program, folder=tmp_path, threads=1).succeeded()
    for name in names:
        assert (tmp_path / "runs" / name / "results.json").exists(), name
