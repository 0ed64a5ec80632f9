"""What a run leaves behind: its files, and what they hold."""

from __future__ import annotations

import csv
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_by_hand import diverged, ended, ensemble, make_member, never_finite, one_model, wave

import sciml_par.parallel as sp
from sciml_par._files import write_text, write_whole
from sciml_par.errors import OutputError
from sciml_par.problems import Box

pytestmark = pytest.mark.ranks(most=2, reason="two ranks show what more would")

FILES = {"results.json", "predictions.npz", "weights.npz", "history.csv"}
FIGURES = {f"{name}.{kind}" for name in ("prediction", "error", "loss") for kind in ("png", "pdf")}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """One folder for all ranks."""
    return Path(sp.current_world().communicator.broadcast_object(str(tmp_path)))


def test_all_files_are_there_and_complete(shared: Path) -> None:
    folder = ensemble().save(shared / "deep" / "run")
    assert folder == shared / "deep" / "run"
    assert {path.name for path in folder.iterdir()} == FILES | FIGURES
    sp.barrier()


def read_json(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_results_json(shared: Path) -> None:
    result = ensemble()
    folder = result.save(shared / "run", plots=False, arguments={"steps": 25, "out": Path("a")})
    found = read_json(folder)
    assert found["arguments"] == {"steps": 25, "out": "a"}
    assert (found["mode"], found["ranks"]) == ("ensemble", 2)
    assert found["versions"]["tensorflow"].startswith("2.")
    for number, (member, of) in enumerate(zip(found["members"], result.members, strict=True)):
        assert (member["member"], member["rank"]) == (number, number // 2)
        assert (member["loss"], member["seed"], member["steps"]) == (of.loss, 100 + number, 25)
        assert member["relative_l2_error"] == of.on_own_domain.relative_l2_error
        assert member["seconds_train"] == 0.5 + number // 2
        assert member["microseconds_per_step"] == pytest.approx(4e4 * member["seconds_train"])
        assert [each["points"] for each in member["per_rank"]] == [9]
    sp.barrier()


def test_what_the_ranks_contributed_to_one_model(shared: Path) -> None:
    result = one_model(3, times_brought_together=2, largest_drift=1e-6)
    found = read_json(result.save(shared / "run", plots=False))
    (member,) = found["members"]
    assert (found["mode"], found["ranks"]) == ("data", 3)
    assert [each["rank"] for each in member["per_rank"]] == [0, 1, 2]
    assert member["seconds_train"] == 2.5  # of the slowest
    assert (member["times_brought_together"], member["largest_drift"]) == (2, 1e-6)
    sp.barrier()


def test_predictions_npz(shared: Path) -> None:
    members = ensemble().members
    folder = ensemble().save(shared / "run", plots=False)
    with np.load(folder / "predictions.npz") as found:
        assert found["x"].shape == (11, 1)
        assert found["u"].shape == found["u_exact"].shape == (4, 11, 1)
        np.testing.assert_array_equal(found["rank"], [0, 0, 1, 1])
        assert found["finished"].all()
        for number, member in enumerate(members):
            np.testing.assert_array_equal(found["u"][number], member.prediction.u)
            np.testing.assert_array_equal(found["u_exact"][number], member.prediction.u_exact)
            mine = found["member_own"] == number
            np.testing.assert_array_equal(found["u_own"][mine], member.on_own_domain.u)
    sp.barrier()


def test_members_whose_own_grids_differ_in_size_are_saved(shared: Path) -> None:
    own = [wave(0, Box([0, 0], [1, 3]), points=200 + 100 * number) for number in range(2)]
    members = [make_member(number, on_own_domain=own[number]) for number in range(2)]
    folder = ensemble(*members).save(shared / "run", plots=False)
    with np.load(folder / "predictions.npz") as found:
        sizes = np.bincount(found["member_own"]).tolist()
        assert sizes == [len(each.x) for each in own] and len(set(sizes)) == 2
        np.testing.assert_array_equal(found["x_own"], np.concatenate([each.x for each in own]))
        np.testing.assert_array_equal(
            found["u_own_exact"], np.concatenate([each.u_exact for each in own])
        )
    sp.barrier()


def test_history_csv(shared: Path) -> None:
    other = {"terms": ("dirichlet",), "term_losses": np.array([[1.0], [0.4]])}
    result = ensemble(make_member(0), ended(1, **other))
    folder = result.save(shared / "run", plots=False)
    with (folder / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [0, 10, 20, 25, 0, 6]
    assert [int(row["member"]) for row in rows] == [0, 0, 0, 0, 1, 1]
    assert [float(row["loss"]) for row in rows] == [x for m in result.members for x in m.losses]
    assert list(rows[0]) == ["step", "member", "loss", "residual", "dirichlet"]
    residuals = [float(row["residual"] or "nan") for row in rows]
    np.testing.assert_allclose(residuals, [0.75, 0.375, 0.225, 0.1875, np.nan, np.nan])
    assert rows[-1]["residual"] == ""
    assert [float(row["dirichlet"]) for row in rows[-2:]] == [1.0, 0.4]
    sp.barrier()


def test_members_that_did_not_simply_finish_are_marked(shared: Path) -> None:
    members = make_member(0), ended(1), diverged(2), never_finite(3)
    folder = ensemble(*members).save(shared / "run", plots=False)
    written = read_json(folder)["members"]
    statuses = ["finished", "not finite", "diverged", "not finite"]
    assert [member["status"] for member in written] == statuses
    assert [member["steps"] for member in written] == [25, 7, 25, 0]
    assert [member["ended"] for member in written] == [member.ended for member in members]
    assert [member["loss"] for member in written] == [0.25, 0.4, 5e3, None]
    best = [None if math.isinf(m.best_loss) else m.best_loss for m in members]
    assert [member["best_loss"] for member in written] == best
    with np.load(folder / "predictions.npz") as found:
        assert found["finished"].tolist() == [True, False, False, False]
    sp.barrier()


def test_another_runs_results_stay(shared: Path) -> None:
    folder = ensemble().save(shared / "run", plots=False)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    sp.barrier()
    with pytest.raises(OutputError, match="holds the results of another run"):
        ensemble().save(shared / "run")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    sp.barrier()
    ensemble().save(shared / "run", overwrite=True, plots=False, arguments={"new": 1})
    assert read_json(folder)["arguments"] == {"new": 1}
    sp.barrier()


def test_a_folder_that_cannot_be_made_is_an_error_on_all_ranks(shared: Path) -> None:
    in_the_way = partial((shared / "file").write_text, "in the way")
    sp.current_world().communicator.on_root(in_the_way)
    with pytest.raises(OutputError, match="cannot write to the folder .*file/run"):
        ensemble().save(shared / "file" / "run")


def test_a_file_that_cannot_be_written_is_an_error_on_all_ranks(shared: Path) -> None:
    in_the_way = partial((shared / "run" / "history.csv").mkdir, parents=True)
    sp.current_world().communicator.on_root(in_the_way)
    with pytest.raises(OutputError, match="cannot write the results to .*run"):
        ensemble().save(shared / "run", plots=False)
    assert not (shared / "run" / "results.json").exists()


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        draft.write_text("hal")
        raise OSError("the disk is full")

    write_text(tmp_path / "notes.txt", "alt, über α")
    with pytest.raises(OSError, match="the disk is full"):
        write_whole(tmp_path / "notes.txt", fail)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "alt, über α"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    write_text(tmp_path / "notes.txt", "new")
    assert (tmp_path / "notes.txt").read_text() == "new"
