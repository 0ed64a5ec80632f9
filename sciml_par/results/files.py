"""The files of a run: results.json, predictions.npz, history.csv and the figures."""

from __future__ import annotations

import csv
import datetime
import json
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._files import write_text, write_whole
from sciml_par.errors import OutputError
from sciml_par.results.folder import RESULTS
from sciml_par.results.member import FINISHED, Member, ranks_of

_PACKAGES = ("sciml-par", "tensorflow", "keras", "numpy", "mpi4py")


def write_results(
    members: Sequence[Member],
    folder: Path,
    *,
    mode: str,
    plots: bool,
    title: str | None,
    arguments: dict[str, Any],
) -> None:
    """Write all files of a run (local). results.json comes last and marks the run as complete.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    try:
        write_whole(folder / "predictions.npz", lambda path: _write_predictions(members, path))
        write_whole(folder / "history.csv", lambda path: _write_history(members, path))
        if plots:
            from sciml_par.results.figures import write_figures  # it imports Matplotlib

            write_figures(members, folder, mode=mode, title=title)
        summary = summarize(members, mode=mode, arguments=arguments)
        write_text(folder / RESULTS, json.dumps(summary, indent=2, default=str) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write the results to {folder}: {error}.") from None


def summarize(members: Sequence[Member], *, mode: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What results.json holds (local)."""
    return {
        "arguments": arguments,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "mode": mode,
        "ranks": len(ranks_of(members)),
        "members": [_summarize_member(member) for member in members],
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
        "relative_l2_error": _number_or_none(member.on_own_domain.relative_l2_error),
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
                "rank": each.rank,
                "points": each.points,
                "seconds_compile": each.seconds_compile,
                "seconds_train": each.seconds_train,
            }
            for each in member.contributions
        ],
    }


def _write_predictions(members: Sequence[Member], path: Path) -> None:
    own = [member.on_own_domain for member in members]
    arrays = {
        "x": members[0].prediction.x,
        "u": np.stack([m.prediction.u for m in members]),
        "u_exact": np.stack([m.prediction.exact for m in members]),
        "x_own": np.concatenate([p.x for p in own]),
        "u_own": np.concatenate([p.u for p in own]),
        "u_own_exact": np.concatenate([p.exact for p in own]),
        "member_own": np.repeat([m.number for m in members], [len(p.x) for p in own]),
        "rank": np.array([m.rank for m in members]),
        "member": np.array([m.number for m in members]),
        "finished": np.array([m.status == FINISHED for m in members]),
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _write_history(members: Sequence[Member], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "member", "loss"])
        for member in members:
            for step, loss in zip(member.loss_steps, member.losses, strict=True):
                writer.writerow([int(step), member.number, repr(float(loss))])


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
