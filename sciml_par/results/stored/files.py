"""The files of a run: what was found, as JSON, arrays, a table, networks and figures."""

from __future__ import annotations

import csv
import datetime
import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._files import draft_of, write_text, write_whole
from sciml_par._text import one_line
from sciml_par.errors import OutputError
from sciml_par.results.member import FINISHED, Member, RankContribution, Weights, ranks_of
from sciml_par.results.member_function import MemberFunction, members_of_functions
from sciml_par.results.predict import kept_weights
from sciml_par.results.stored.folder import RESULTS
from sciml_par.results.stored.keras_models import save_model
from sciml_par.results.trained_field import TrainedField
from sciml_par.results.unknown_values import relative_error

FloatArray = npt.NDArray[np.float64]

FORMAT = 3
"""Of the files; raised when a version cannot read what another has written. 1 had no number."""

PREDICTIONS, WEIGHTS, HISTORY = "predictions.npz", "weights.npz", "history.csv"
FUNCTIONS = "functions.npz"
FIRST_COLUMNS = ["step", "member", "loss"]
UNKNOWN, WEIGHT = "unknown_", "weight_"
"""Before the name of a term: the column of what a strategy has multiplied it by."""
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
    """Write all files of a run. results.json comes last and marks the run as complete."""
    try:
        # Until the new one is there, the folder holds no complete run.
        (folder / RESULTS).unlink(missing_ok=True)
        write_whole(folder / PREDICTIONS, lambda path: _write_predictions(members, path))
        write_whole(folder / WEIGHTS, lambda path: _write_weights(members, path))
        write_whole(folder / HISTORY, lambda path: _write_history(members, path))
        functions = [FUNCTIONS] if any(member.functions for member in members) else []
        (folder / FUNCTIONS).unlink(missing_ok=True)
        for name in functions:
            write_whole(folder / name, lambda path: _write_functions(members, path))
        networks = _write_networks([*members, *members_of_functions(members)], folder)
        if plots:
            from sciml_par.results.stored.figures import write_figures  # it imports Matplotlib

            write_figures(members, folder, mode=mode, title=title)
        summary = summarize(members, mode=mode, arguments=arguments) | {"networks": networks}
        files = [n["file"] for n in networks if n["file"]]
        written = [PREDICTIONS, WEIGHTS, HISTORY, *functions, *files]
        summary["sha256"] = {name: digest_of(folder / name) for name in written}
        write_text(folder / RESULTS, json.dumps(summary, indent=2, default=str) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write the results to {folder}: {error}.") from None


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def summarize(members: Sequence[Member], *, mode: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What results.json holds of the run itself."""
    return {
        "format": FORMAT,
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
        "ended": member.ended,
        "steps": member.steps,
        "steps_asked": member.steps_asked,
        "loss": _number_or_none(member.loss),
        "best_loss": _number_or_none(member.best_loss),
        "best_step": member.best_step,
        "validation_loss": _number_or_none(member.validation_loss),
        "zero_loss": _number_or_none(member.zero_loss),
        "misfits": list(member.misfits.items()),
        "kept": member.kept,
        "terms": list(member.terms),
        "coordinates": list(member.prediction.coordinates),
        "outputs": list(member.prediction.fields),
        "points": member.points,
        "relative_l2_error": _number_or_none(member.on_own_domain.relative_l2_error),
        "relative_l2_error_on_evaluation_domain": _number_or_none(
            member.prediction.relative_l2_error
        ),
        "seconds_compile": member.seconds_compile,
        "seconds_train": member.seconds_train,
        "microseconds_per_step": _number_or_none(member.microseconds_per_step),
        "times_brought_together": member.times_brought_together,
        "largest_drift": member.largest_drift,
        "stacked_with": list(member.stacked_with),
        "architecture": member.architecture,
        "field": asdict(member.form),
        "unknowns": _summarize_unknowns(member),
        "unknown_functions": [_summarize_function(each) for each in member.functions],
        "per_rank": [_summarize_contribution(each) for each in member.contributions],
    }


def _summarize_unknowns(member: Member) -> list[dict[str, Any]]:
    values, kept = member.unknown_values, member.unknowns
    best, last = values.by_name(values.best), values.by_name(values.last)
    found = []
    for name, shape in values.shapes.items():
        true = values.true.get(name)
        error = relative_error(kept[name], true)
        numbers = {"value": kept[name], "best": best[name], "last": last[name], "true": true}
        found.append(
            {
                "name": name,
                "shape": list(shape),
                **{
                    key: None if v is None else np.asarray(v).tolist() for key, v in numbers.items()
                },
                "relative_error": _number_or_none(error),
            }
        )
    return found


def _summarize_function(function: MemberFunction) -> dict[str, Any]:
    placed = function.placed
    return {
        "name": placed.name,
        "inputs": [asdict(each) for each in placed.inputs],
        **{name: getattr(placed.function, name) for name in ("start", "lower", "upper", "scale")},
        "box": [placed.lower.tolist(), placed.upper.tolist()],
        "coordinates": list(placed.coordinates),
        "scaled": function.scaled,
        "architecture": function.architecture,
        "relative_error": _number_or_none(function.prediction.relative_l2_error),
    }


def _summarize_contribution(contribution: RankContribution) -> dict[str, Any]:
    lower, upper = contribution.lower, contribution.upper
    return {
        "rank": contribution.rank,
        "points": contribution.points,
        "lower": None if lower is None else lower.tolist(),
        "upper": None if upper is None else upper.tolist(),
        "seconds_compile": contribution.seconds_compile,
        "seconds_train": contribution.seconds_train,
    }


def _write_predictions(members: Sequence[Member], path: Path) -> None:
    own = [member.on_own_domain for member in members]
    samples = [(m.number, each) for m in members for each in m.contributions]
    lengths = [len(each.sample) for _, each in samples]
    arrays = {
        "x": members[0].prediction.x,
        "u": np.stack([m.prediction.u for m in members]),
        "u_exact": np.stack([m.prediction.exact for m in members]),
        "inside": members[0].prediction.inside,
        "x_own": np.concatenate([p.x for p in own]),
        "u_own": np.concatenate([p.u for p in own]),
        "u_own_exact": np.concatenate([p.exact for p in own]),
        "inside_own": np.concatenate([p.inside for p in own]),
        "member_own": np.repeat([m.number for m in members], [len(p.x) for p in own]),
        "x_trained": np.concatenate([each.sample for _, each in samples]),
        "member_trained": np.repeat([number for number, _ in samples], lengths),
        "rank_trained": np.repeat([each.rank for _, each in samples], lengths),
        "rank": np.array([m.rank for m in members]),
        "member": np.array([m.number for m in members]),
        "finished": np.array([m.status == FINISHED for m in members]),
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _write_weights(members: Sequence[Member], path: Path) -> None:
    arrays = {}
    for member in members:
        weights = member.weights
        assert isinstance(weights, Weights)
        arrays[f"best_{member.number}"] = weights.best
        arrays[f"last_{member.number}"] = weights.last
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_functions(members: Sequence[Member], path: Path) -> None:
    arrays: dict[str, Any] = {}
    for member in members:
        for each in member.functions:
            seen, weights = each.prediction, each.weights
            assert isinstance(weights, Weights)
            values = {"x": seen.x, "k": seen.u, "true": seen.exact, "inside": seen.inside}
            values |= {"best": weights.best, "last": weights.last}
            arrays |= {f"{what}_{member.number}_{each.name}": v for what, v in values.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _write_history(members: Sequence[Member], path: Path) -> None:
    names = list(dict.fromkeys(name for member in members for name in member.terms))
    sought = list(dict.fromkeys(n for member in members for n in member.unknown_values.names))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        weighed = [] if all(m.term_weights.size == 0 for m in members) else names
        of_unknowns = [f"{UNKNOWN}{name}" for name in sought]
        of_weights = [f"{WEIGHT}{name}" for name in weighed]
        writer.writerow([*FIRST_COLUMNS, *names, *of_unknowns, *of_weights])
        for member in members:
            unknowns = member.unknown_values
            places = [member.terms.index(n) if n in member.terms else None for n in names]
            of_sought = [unknowns.names.index(n) if n in unknowns.names else None for n in sought]
            rows = zip(member.loss_steps, member.losses, member.term_losses, strict=True)
            for k, (step, loss, terms) in enumerate(rows):
                values = _cells(terms, places)
                values += _cells(unknowns.history[k] if unknowns.size else [], of_sought)
                values += _cells(member.term_weights[k], places) if weighed else []
                writer.writerow([int(step), member.number, repr(float(loss)), *values])


def _cells(values: Any, places: Sequence[int | None]) -> list[str]:
    """The values at these places; nothing where there is none, as for a term of other members."""
    return ["" if t is None or t >= len(values) else repr(float(values[t])) for t in places]


def _write_networks(members: Sequence[Member], folder: Path) -> list[dict[str, Any]]:
    """One file for each architecture, as far as Keras can save it; what they are."""
    for left in folder.glob("network-*.keras"):
        left.unlink()
    found = []
    for number, architecture in enumerate(dict.fromkeys(m.architecture for m in members)):
        first = next(m for m in members if m.architecture == architecture)
        file = folder / f"network-{number}.keras"
        reason = _write_network(first, file)
        name = None if reason else file.name
        found.append({"architecture": architecture, "file": name, "reason": reason})
    return found


def _write_network(member: Member, path: Path) -> str | None:
    """Write the network of a member with its weights; why it cannot be, or None."""
    if not isinstance(member.field, TrainedField):
        return str(member.field or "it was not here")
    model = member.field.model
    try:
        write_whole(path, lambda draft: save_model(model, kept_weights(member), draft))
    except OSError:
        raise
    except Exception as error:  # Keras and the user's own class raise all kinds
        draft_of(path).unlink(missing_ok=True)
        return one_line(error)
    return None


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _number_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
