"""The programs in scripts/, run as a user runs them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import ROOT, Ended, Started, launch, start

pytestmark = pytest.mark.launches

POISSON = ROOT / "scripts" / "pinn_poisson.py"
APPROXIMATION = ROOT / "scripts" / "function_approximation.py"

DATA_FILES = {"results.json", "predictions.npz", "history.csv", "weights.npz", "network-0.keras"}
FIGURE_FILES = {
    f"{name}.{kind}" for name in ("prediction", "error", "loss") for kind in ("png", "pdf")
}
# Keys are those of files of earlier versions.
STORED = ROOT / "tests" / "results" / "format_3" / "results.json"
MEMBER_KEYS = set(json.loads(STORED.read_text())["members"][0])
SHORT = ("--optimizer", "adam", "--steps", "200", "--log-every", "50", "--no-plots")


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions.npz") as file:
        return dict(file)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def check_run(folder: Path, *, ranks: int, members: int, plots: bool) -> list[dict[str, Any]]:
    """Check names and shapes of all that a run has written; return its members."""
    expected = DATA_FILES | (FIGURE_FILES if plots else set())
    in_data = read(folder)["mode"] == "data"
    expected |= {f"checkpoint{'' if in_data else f'-group-{r}'}.npz" for r in range(ranks)}
    assert {path.name for path in folder.iterdir()} == expected
    results = read(folder)
    of_the_run = {"arguments", "versions", "date", "mode", "ranks", "members"}
    assert set(results) == of_the_run | {"format", "networks", "sha256"}
    assert results["ranks"] == ranks
    assert results["versions"]["tensorflow"] and results["versions"]["mpi4py"]
    found: list[dict[str, Any]] = results["members"]
    check_members(found, results, ranks=ranks, members=members)
    check_arrays(arrays(folder), [m["rank"] for m in found])
    # Every second one of the 1,000 steps that are usual with least squares.
    check_history(folder, found, every=results["arguments"]["log_every"] or 2)
    return found


def check_members(
    found: list[dict[str, Any]], results: dict[str, Any], *, ranks: int, members: int
) -> None:
    assert len(found) == members
    for number, member in enumerate(found):
        assert set(member) == MEMBER_KEYS
        assert member["member"] == number
        if results["arguments"]["steps"] is None:  # least squares, which may end before
            assert 0 < member["steps"] <= member["steps_asked"] == 1_000
        else:
            assert member["steps"] == member["steps_asked"] == results["arguments"]["steps"]
        assert 0 < member["best_loss"] <= member["loss"] < math.inf
        assert (member["status"], member["times_brought_together"]) == ("finished", 0)
        assert 0 < member["relative_l2_error"] < math.inf
        assert member["seconds_compile"] > 0
        assert member["microseconds_per_step"] == pytest.approx(
            1e6 * member["seconds_train"] / member["steps"]
        )
        contributors = [portion["rank"] for portion in member["per_rank"]]
        data = results["mode"] == "data"
        assert contributors == (list(range(ranks)) if data else [member["rank"]])
        per_rank = results["arguments"]["points"]
        assert all(portion["points"] == per_rank for portion in member["per_rank"])


def check_arrays(found: dict[str, np.ndarray], ranks: list[int]) -> None:
    m = len(ranks)
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes.pop("x") == (201, 1)
    assert shapes.pop("u") == shapes.pop("u_exact") == (m, 201, 1)
    assert shapes.pop("rank") == shapes.pop("member") == shapes.pop("finished") == (m,)
    assert shapes.pop("member_own") == (m * 201,)
    assert shapes.pop("inside") == (201,) and shapes.pop("inside_own") == (m * 201,)
    (trained,) = {shapes.pop(name)[0] for name in ("x_trained", "rank_trained", "member_trained")}
    assert trained >= m
    # On a busy machine it takes 20 s, from which on it has an error.
    assert set(shapes) - {"error_own"} == {"x_own", "u_own", "u_own_exact"}
    assert set(shapes.values()) == {(m * 201, 1)}
    assert all(np.isfinite(array).all() for array in found.values())
    assert found["rank"].tolist() == ranks


def check_history(folder: Path, members: list[dict[str, Any]], *, every: int) -> None:
    with (folder / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for member in members:
        own = [row for row in rows if int(row["member"]) == member["member"]]
        assert [int(row["step"]) for row in own] == [
            *range(0, member["steps"], every),
            member["steps"],
        ]
        assert float(own[-1]["loss"]) == member["loss"]
        assert float(own[0]["loss"]) > member["loss"]


def check_refused(ended: Ended, message: str, *, code: int = 2) -> None:
    assert ended.code == code
    assert ended.err.count(message) == 1, ended.err
    assert "Traceback" not in ended.err


@pytest.mark.long_after(1)
@pytest.mark.all_after(2)
@pytest.mark.parametrize(
    ("program", "mode"),
    [
        (POISSON, "data"),
        (APPROXIMATION, "ensemble"),
        (POISSON, "ensemble"),
        (APPROXIMATION, "data"),
    ],
)
def test_the_defaults_on_two_ranks_are_accurate_and_leave_everything(
    program: Path, mode: str, tmp_path: Path
) -> None:
    ended = launch(2, program, "--mode", mode, folder=tmp_path).succeeded()
    name = f"{program.stem}-{mode}"
    assert ended.out.count(f"results in runs/{name}\n") == 1
    assert ended.out.count(", auto, float64") == 1  # one announcement, not one a rank
    assert ended.out.count("optimizer: LevenbergMarquardt, for 141 parameters") == 1
    assert ended.err == ""  # the points are not said to be few
    folder = tmp_path / "runs" / name
    members = check_run(folder, ranks=2, members=1 if mode == "data" else 2, plots=True)
    assert [m["relative_l2_error"] for m in members if m["relative_l2_error"] > 1e-6] == []
    arguments = read(folder)["arguments"]
    assert arguments["mode"] == mode
    assert arguments["scale_learning_rate"] is False  # there is no rate


def test_python_alone_is_one_rank(tmp_path: Path) -> None:
    def short(ranks: int | None) -> Started:
        return start(ranks, POISSON, *SHORT, folder=tmp_path, threads=1)

    folder = tmp_path / "runs" / "pinn_poisson-data"
    second = folder.with_name(f"{folder.name}-2")
    # Both at once: which of them takes the first folder is left open, as both compute the same.
    ended = [running.end().succeeded() for running in (short(None), short(1))]
    said = {one.out.splitlines()[-1] for one in ended}
    assert said == {f"results in runs/{each.name}" for each in (folder, second)}
    check_run(folder, ranks=1, members=1, plots=False)
    check_run(second, ranks=1, members=1, plots=False)
    same = arrays(second)
    for name, array in arrays(folder).items():
        np.testing.assert_array_equal(array, same[name], err_msg=name)


@pytest.mark.long
def test_a_seed_decides_everything_and_results_are_overwritten_only_on_request(
    tmp_path: Path,
) -> None:
    options = ("--mode", "ensemble", "--members", "3", *SHORT, "--output", "kept")

    def seeded(seed: str, *more: str) -> Ended:
        return launch(2, POISSON, *options, "--seed", seed, *more, folder=tmp_path)

    # A whole start of TensorFlow, which says something only then.
    command = (POISSON, *options, "--seed", "5", "--verbose")
    told = launch(2, *command, folder=tmp_path, fresh=True)
    assert told.code == 0 and "tensorflow" in told.err.lower()  # its start-up messages
    folder = tmp_path / "kept"
    members = check_run(folder, ranks=2, members=6, plots=False)
    assert [m["rank"] for m in members] == [0, 0, 0, 1, 1, 1]
    first, before = arrays(folder), content(folder)
    assert len({member.tobytes() for member in first["u"]}) == 6

    check_refused(seeded("6"), "kept holds the checkpoint of another run")
    assert content(folder) == before

    seeded("6", "--overwrite").succeeded()
    second = arrays(folder)["u"]
    assert all(not np.array_equal(a, b) for a in first["u"] for b in second)


def test_a_wrong_option_is_refused_once_before_anything_is_done(tmp_path: Path) -> None:
    ended = launch(2, POISSON, "--frobnicate", folder=tmp_path)
    check_refused(ended, "Unknown option: --frobnicate")
    assert len(ended.err.splitlines()) == 1
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    ended = launch(2, POISSON, "--output", "file/results", folder=tmp_path)
    check_refused(ended, "cannot write to the folder file/results")
    assert "step" not in ended.out.partition("\n")[2]
    assert [path.name for path in files_below(tmp_path)] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.all_after(1)
@pytest.mark.parametrize("mode", ["ensemble", "data"])
def test_a_loss_that_is_not_finite_any_more_is_told_and_the_best_saved(
    mode: str, tmp_path: Path
) -> None:
    options = ("--mode", mode, "--learning-rate", "1e30", *SHORT)
    ended = launch(2, POISSON, *options, folder=tmp_path)
    members = 1 if mode == "data" else 2
    assert ended.code == 3
    assert ended.err == (
        f"pinn_poisson: not all is well: of the models, {members} of {members} ended because the "
        f"loss was not finite.\n"
    )
    found = read(tmp_path / "runs" / f"pinn_poisson-{mode}")["members"]
    assert [member["status"] for member in found] == ["not finite"] * members


def test_a_loss_that_ends_far_above_its_best_is_told_and_saved(tmp_path: Path) -> None:
    ended = launch(None, APPROXIMATION, "--learning-rate", "1e9", *SHORT, folder=tmp_path)
    assert ended.code == 3
    assert ended.out.count("! the model: diverged; the loss ended at") == 1
    assert ended.err == (
        "function_approximation: not all is well: of the models, 1 of 1 ended with a loss far "
        "above the best.\n"
    )
    folder = tmp_path / "runs" / "function_approximation-data"
    assert {path.name for path in folder.iterdir()} == DATA_FILES | {"checkpoint.npz"}
    (member,) = read(folder)["members"]
    assert member["status"] == "diverged"
    assert member["loss"] > 1e3 * member["best_loss"]
