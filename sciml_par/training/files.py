"""The files of a run: results.json, predictions.npz, history.csv and the figures."""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.errors import OutputError
from sciml_par.training.folder import RESULTS
from sciml_par.training.member import FINISHED

if TYPE_CHECKING:
    from sciml_par.training.member import Member
    from sciml_par.training.result import Result

_PACKAGES = ("sciml-par", "tensorflow", "keras", "numpy", "mpi4py")


def write_results(
    result: Result, folder: Path, *, plots: bool, title: str | None, arguments: dict[str, Any]
) -> None:
    """Write all files of a run (local). results.json comes last and marks the run as complete."""
    try:
        write_whole(folder / "predictions.npz", lambda path: _write_predictions(result, path))
        write_whole(folder / "history.csv", lambda path: _write_history(result, path))
        if plots:
            from sciml_par.training.figures import write_figures  # it imports Matplotlib

            write_figures(result, folder, title=title)
        summary = summarize(result, arguments)
        text = json.dumps(summary, indent=2, default=str)
        write_whole(folder / RESULTS, lambda path: path.write_text(text + "\n"))
    except OSError as error:
        raise OutputError(f"cannot write the results to {folder}: {error}.") from None


def summarize(result: Result, arguments: dict[str, Any]) -> dict[str, Any]:
    """What results.json holds."""
    return {
        "arguments": arguments,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "mode": result.mode,
        "ranks": result.ranks,
        "members": [_summarize_member(member) for member in result.members],
    }


def _summarize_member(member: Member) -> dict[str, Any]:
    return {
        "member": member.number,
        "rank": member.rank,
        "problem": member.problem,
        "seed": member.seed,
        "status": member.status,
        "steps": member.steps,
        "loss": _number_or_none(member.loss),
        "best_loss": _number_or_none(member.best_loss),
        "relative_l2_error": _number_or_none(member.own.relative_l2_error),
        "relative_l2_error_on_evaluation_domain": _number_or_none(
            member.prediction.relative_l2_error
        ),
        "seconds_compile": member.seconds_compile,
        "seconds_train": member.seconds_train,
        "microseconds_per_step": _number_or_none(member.microseconds_per_step),
        "times_brought_together": member.times_brought_together,
        "largest_drift": member.largest_drift,
        "per_rank": [
            {
                "rank": portion.rank,
                "points": portion.points,
                "seconds_compile": portion.seconds_compile,
                "seconds_train": portion.seconds_train,
            }
            for portion in member.portions
        ],
    }


def _write_predictions(result: Result, path: Path) -> None:
    members = result.members
    arrays = {
        "x": members[0].prediction.x,
        "u": np.stack([m.prediction.u for m in members]),
        "u_exact": np.stack([m.prediction.u_exact for m in members]),
        "x_own": np.concatenate([m.own.x for m in members]),
        "u_own": np.concatenate([m.own.u for m in members]),
        "u_own_exact": np.concatenate([m.own.u_exact for m in members]),
        "member_own": np.repeat([m.number for m in members], [len(m.own.x) for m in members]),
        "rank": np.array([m.rank for m in members]),
        "member": np.array([m.number for m in members]),
        "finished": np.array([m.status == FINISHED for m in members]),
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _write_history(result: Result, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "member", "loss"])
        for member in result.members:
            for step, loss in zip(member.loss_steps, member.losses, strict=True):
                writer.writerow([int(step), member.number, repr(float(loss))])


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write beside the file and put it in place in one piece."""
    draft = path.with_name(f".{path.name}.part")
    write(draft)
    os.replace(draft, path)


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on (local)."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _number_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
