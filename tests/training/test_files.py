"""What a run leaves behind: folders, files, and what they hold."""

from __future__ import annotations

import csv
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.errors import OutputError
from sciml_par.problems import Box, Interval, Problem, laplacian, poisson
from sciml_par.training import Comparison, Result, train
from sciml_par.training.folder import claim_folder, claim_numbered_folder

FILES = {"results.json", "predictions.npz", "history.csv"}
FIGURES = {f"{name}.{kind}" for name in ("prediction", "error", "loss") for kind in ("png", "pdf")}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """One folder for all ranks."""
    return Path(sp.current_world().communicator.broadcast_object(str(tmp_path)))


@cache
def ensemble() -> Result:
    return train(
        poisson(k=sp.rank() + 1),
        mode="ensemble",
        points=9,
        steps=25,
        log_every=10,
        evaluation_points=11,
        members=2,
        progress=False,
    )


def wait() -> None:
    sp.barrier()


def test_all_files_are_there_and_complete(shared: Path) -> None:
    result = ensemble()
    folder = result.save(shared / "deep" / "run", arguments={"steps": 25})
    assert folder == shared / "deep" / "run"
    assert {path.name for path in folder.iterdir()} == FILES | FIGURES
    wait()


def test_results_json(shared: Path) -> None:
    result = ensemble()
    folder = result.save(shared / "run", plots=False, arguments={"steps": 25, "out": Path("a")})
    found = json.loads((folder / "results.json").read_text())
    assert found["arguments"] == {"steps": 25, "out": "a"}
    assert found["ranks"] == sp.size()
    assert found["versions"]["tensorflow"].startswith("2.")
    assert len(found["members"]) == 2 * sp.size()
    for number, (member, of) in enumerate(zip(found["members"], result.members, strict=True)):
        assert member["member"] == number
        assert member["rank"] == number // 2
        assert member["loss"] == of.loss
        assert member["relative_l2_error"] == of.own.relative_l2_error
        assert member["steps"] == 25
        assert member["seconds_train"] > 0
        assert member["microseconds_per_step"] == pytest.approx(4e4 * member["seconds_train"])
    assert found["members"][0]["seconds_compile"] > found["members"][1]["seconds_compile"]
    wait()


def test_predictions_npz(shared: Path) -> None:
    result = ensemble()
    folder = result.save(shared / "run", plots=False)
    with np.load(folder / "predictions.npz") as found:
        count = 2 * sp.size()
        assert found["x"].shape == (11, 1)
        assert found["u"].shape == found["u_exact"].shape == (count, 11, 1)
        np.testing.assert_array_equal(found["rank"], np.arange(count) // 2)
        assert found["finished"].all()
        for j, member in enumerate(result.members):
            wave = np.sin((j // 2 + 1) * np.pi * found["x"])
            np.testing.assert_allclose(found["u_exact"][j], wave, atol=1e-12)
            mine = found["member_own"] == j
            if isinstance(member.prediction, Comparison):
                np.testing.assert_array_equal(found["u"][j], member.prediction.u)
                np.testing.assert_array_equal(found["u_own"][mine], member.own.u)
    wait()


def test_members_whose_own_grids_differ_in_size_are_saved(shared: Path) -> None:
    domain = Box([0.0, 0.0], [1.0, 1.0 + 2 * sp.rank()])
    problem = Problem(domain, lambda u, x: laplacian(u, x) - 1.0, name="source")
    result = train(
        problem, mode="ensemble", points=9, steps=2, evaluation_points=200, progress=False
    )
    folder = result.save(shared / "run", plots=False)
    with np.load(folder / "predictions.npz") as found:
        sizes = np.bincount(found["member_own"]).tolist()
        assert len(result.members[sp.rank()].own.x) == sizes[sp.rank()]
        assert len(sizes) == sp.size() == 1 or len(set(sizes)) > 1
        assert found["x_own"][:, 1].max() == found["x"][:, 1].max()
        assert found["x"][:, 1].max() == 1.0 + 2 * (sp.size() - 1)
    wait()


def test_history_csv(shared: Path) -> None:
    result = ensemble()
    folder = result.save(shared / "run", plots=False)
    with (folder / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(r["step"]) for r in rows] == [0, 10, 20, 25] * len(result.members)
    assert [float(r["loss"]) for r in rows] == [x for m in result.members for x in m.losses]
    wait()


def test_another_runs_results_stay(shared: Path) -> None:
    folder = ensemble().save(shared / "run", plots=False)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    wait()
    with pytest.raises(OutputError, match="holds the results of another run"):
        ensemble().save(shared / "run")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    wait()
    ensemble().save(shared / "run", overwrite=True, plots=False, arguments={"new": 1})
    assert json.loads((folder / "results.json").read_text())["arguments"] == {"new": 1}
    wait()


def test_a_folder_that_cannot_be_made_is_an_error_on_all_ranks(shared: Path) -> None:
    if sp.rank() == 0:
        (shared / "file").write_text("in the way")
    wait()
    with pytest.raises(OutputError, match="cannot write to the folder .*file/run"):
        ensemble().save(shared / "file" / "run")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(shared: Path) -> None:
    locked = shared / "locked"
    if sp.rank() == 0:
        locked.mkdir(mode=0o555)
    wait()
    with pytest.raises(OutputError, match="Permission denied"):
        ensemble().save(locked)


def test_numbered_folders(tmp_path: Path) -> None:
    names = [claim_numbered_folder(tmp_path / "runs" / "a").name for _ in range(3)]
    assert names == ["a", "a-2", "a-3"]


def test_an_empty_folder_may_be_claimed(tmp_path: Path) -> None:
    assert claim_folder(tmp_path, overwrite=False) == tmp_path
    (tmp_path / "notes.txt").write_text("mine")
    assert claim_folder(tmp_path, overwrite=False) == tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("dimension", [2, 3])
def test_figures_without_an_exact_solution(shared: Path, dimension: int) -> None:
    """No error to draw; and in three dimensions, no prediction either."""
    domain = Box([0.0] * dimension, [1.0] * dimension)
    problem = Problem(domain, lambda u, x: laplacian(u, x) - 1.0, name="source")
    result = train(problem, points=2**dimension, steps=2, evaluation_points=27, progress=False)
    folder = result.save(shared / "run")
    drawn = {"loss", "prediction"} if dimension == 2 else {"loss"}
    assert {path.stem for path in folder.glob("*.png")} == drawn
    wait()


def test_the_title_and_problems_reach_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    from sciml_par.training import figures

    seen: list[Any] = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, *_: seen.append(figure))
    result = ensemble()
    if sp.rank() > 0:  # which has no arrays of the others
        return
    figures.write_figures(result, Path("unused"), title="A title")
    texts = [text.get_text() for figure in seen for text in figure.findobj(match=_is_text)]
    assert texts.count("A title") == 3
    equations_differ = sp.size() > 1
    assert any("poisson, k = 1" in text for text in texts) == equations_differ


def _is_text(artist: Any) -> bool:
    return hasattr(artist, "get_text")


def test_interval_runs_draw_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    from sciml_par.training import figures

    result = train(poisson(), points=5, steps=2, evaluation_points=9, progress=False)
    curve = figures._prediction(result, result.members[0])
    assert [shard.label for shard in curve.shards] == [f"rank {r}" for r in range(sp.size())]
    parts = Interval(-1, 1).split(sp.size())
    for rank, (shard, part) in enumerate(zip(curve.shards, parts, strict=True)):
        seen = sp.rank() in (0, rank)
        np.testing.assert_array_equal(shard.training_points, part.grid(5)[: 5 if seen else 0])
