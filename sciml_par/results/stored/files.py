"""The files of a run, written and read: JSON, arrays, a table, networks and figures."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._files import draft_of, write_text, write_whole
from sciml_par._text import one_line
from sciml_par.errors import InputError, OutputError
from sciml_par.results.member import Member, ranks_of
from sciml_par.results.member_function import members_of_functions
from sciml_par.results.predict import kept_weights
from sciml_par.results.stored.arrays import (
    FUNCTIONS,
    HISTORY,
    PREDICTIONS,
    WEIGHTS,
    Arrays,
    arrays_of_functions,
    arrays_of_predictions,
    arrays_of_weights,
    read_history,
    write_history,
)
from sciml_par.results.stored.entries import read_member, write_member
from sciml_par.results.stored.folder import RESULTS
from sciml_par.results.stored.keras_models import save_model, with_fields
from sciml_par.results.trained_field import TrainedField

FORMAT = 3
"""Of the files; raised when a version cannot read what another has written."""

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
        written = _write_arrays(members, folder)
        networks = _write_networks([*members, *members_of_functions(members)], folder)
        written += [each["file"] for each in networks if each["file"]]
        if plots:
            from sciml_par.results.stored.figures import write_figures  # it imports Matplotlib

            write_figures(members, folder, mode=mode, title=title)
        summary = {
            "format": FORMAT,
            "arguments": arguments,
            "versions": versions(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "mode": mode,
            "ranks": len(ranks_of(members)),
            "members": [write_member(member) for member in members],
            "networks": networks,
            "sha256": {name: digest_of(folder / name) for name in written},
        }
        write_text(folder / RESULTS, json.dumps(summary, indent=2, default=str) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write the results to {folder}: {error}.") from None


def _write_arrays(members: Sequence[Member], folder: Path) -> list[str]:
    """Write arrays and history, and return the names of the files."""
    arrays = {
        PREDICTIONS: arrays_of_predictions(members),
        WEIGHTS: arrays_of_weights(members),
        FUNCTIONS: arrays_of_functions(members),
    }
    (folder / FUNCTIONS).unlink(missing_ok=True)
    written = [name for name, found in arrays.items() if found]
    for name in written:
        # Weights look like noise, which compression would not make smaller.
        save = np.savez if name == WEIGHTS else np.savez_compressed
        write_whole(folder / name, partial(_save, save, arrays[name]))
    write_whole(folder / HISTORY, partial(write_history, members))
    return [*written, HISTORY]


def _save(save: Callable[..., None], arrays: Arrays, path: Path) -> None:
    with path.open("wb") as file:
        save(file, **arrays)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_networks(members: Sequence[Member], folder: Path) -> list[dict[str, Any]]:
    """Write a file for each architecture that Keras can save, and return what they are."""
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
    """Write the network of a member with its weights, or return why it cannot be written."""
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
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def load(
    folder: Path, *, problem: Any, network: Any
) -> tuple[str, dict[str, Any], tuple[Member, ...]]:
    """Return mode, arguments and members of the files of a run; see `Result.load`."""
    summary = _read_summary(folder / RESULTS)
    try:
        for name, digest in summary["sha256"].items():
            _check_file(folder / name, digest)
        members = with_fields(folder, summary, _read_members(folder, summary), problem, network)
        return summary["mode"], summary["arguments"], members
    except InputError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, OSError) as error:
        raise InputError(
            f"Result.load: the files in {folder} are not as Result.save writes them "
            f"({type(error).__name__}: {one_line(error)}). They have been changed since."
        ) from error


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(
            f"Result.load: expected a folder that Result.save has written; there is no file {path} "
            f"(in {Path.cwd()}). It is written last: a run that was saved in part only has none."
        )
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(
            f"Result.load: {path} cannot be read ({one_line(error)}). It is truncated, or not a "
            f"file of sciml_par."
        ) from error
    given = list(summary) if isinstance(summary, dict) else []
    if "members" not in given:
        raise InputError(
            f"Result.load: expected {path} to have 'members', as Result.save writes it; got "
            f"{', '.join(map(repr, given)) or 'none'}. Name the folder of a training; what "
            f"programs that compare numbers of ranks write, json.load reads."
        )
    if summary.get("format") != FORMAT:
        raise InputError(
            f"Result.load: expected {path} to have format {FORMAT}; got "
            f"{summary.get('format')!r}. Load it with the version that wrote it: "
            f"{summary.get('versions')}."
        )
    return summary


def _check_file(path: Path, digest: str) -> None:
    if not path.is_file():
        raise InputError(f"Result.load: {path} is missing; {RESULTS} lists it.")
    if digest_of(path) != digest:
        raise InputError(
            f"Result.load: {path} is not the file that {RESULTS} lists: it is truncated, or has "
            f"been changed since."
        )


def _read_members(folder: Path, summary: Mapping[str, Any]) -> list[Member]:
    """Return all members but for their fields."""
    arrays: dict[str, Arrays] = {FUNCTIONS: {}}
    for name in (PREDICTIONS, WEIGHTS, FUNCTIONS):
        if name in summary["sha256"]:
            with np.load(folder / name, allow_pickle=False) as file:
                arrays[name] = dict(file)
    # The columns of history.csv begin with the terms of all members.
    terms = {name for entry in summary["members"] for name in entry["terms"]}
    histories = read_history(folder / HISTORY, len(terms))
    return [read_member(each, arrays, histories[each["member"]]) for each in summary["members"]]
