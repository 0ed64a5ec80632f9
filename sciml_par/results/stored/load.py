"""Results read from the files of a run."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.results.member import History, Member, RankContribution, Weights
from sciml_par.results.stored.files import (
    FIRST_COLUMNS,
    FORMAT,
    FUNCTIONS,
    HISTORY,
    PREDICTIONS,
    UNKNOWN,
    WEIGHT,
    WEIGHTS,
    digest_of,
)
from sciml_par.results.stored.folder import RESULTS
from sciml_par.results.stored.load_fields import as_form, with_fields
from sciml_par.results.stored.load_functions import load_functions
from sciml_par.results.unknown_values import NO_UNKNOWNS, UnknownValues

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Loaded:
    """What the files of a run hold.

    Attributes
    ----------
    mode, arguments, members : as those of `Result`.
    """

    mode: str
    arguments: dict[str, Any]
    members: tuple[Member, ...]


def load(folder: Path, *, problem: Any, network: Any) -> Loaded:
    """Read the files of a run; see `Result.load`."""
    summary = _read_summary(folder)
    try:
        for name, digest in summary["sha256"].items():
            _check_file(folder / name, digest)
        predictions, weights = _arrays(folder / PREDICTIONS), _arrays(folder / WEIGHTS)
        histories = _read_history(folder / HISTORY, _names_of_terms(summary))
        # Earlier versions had no such file.
        found = folder / FUNCTIONS
        functions = load_functions(summary, _arrays(found) if found.is_file() else {})
        members = tuple(
            replace(
                _member(entry, predictions, weights, histories),
                functions=functions[entry["member"]],
            )
            for entry in summary["members"]
        )
        members = with_fields(folder, summary, members, problem, network)
        return Loaded(summary["mode"], summary["arguments"], members)
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"Result.load: the files in {folder} are not as Result.save writes them "
            f"({type(error).__name__}: {one_line(error)}). They have been changed since."
        ) from error


def _read_summary(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    if not path.is_file():
        raise InputError(_no_summary(folder))
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(
            f"Result.load: {path} cannot be read ({one_line(error)}). It is truncated, or no file "
            f"of sciml_par."
        ) from error
    if not isinstance(summary, dict) or "versions" not in summary:
        raise InputError(f"Result.load: {path} is no file of sciml_par: it lacks 'versions'.")
    if "members" not in summary:
        raise InputError(
            f"Result.load: {path} is not that of a training, but of a program that compares "
            f"numbers of ranks. Read it with json.load."
        )
    _check_format(path, summary)
    return summary


def _check_format(path: Path, summary: dict[str, Any]) -> None:
    given = summary.get("format", 1)
    wrote = summary["versions"].get("sciml-par", "unknown")
    if given == 1:
        raise InputError(
            f"Result.load: {path} was written by sciml-par {wrote}, which saved no weights. Read "
            f"its arrays with numpy.load from {PREDICTIONS}, and its losses from {HISTORY}."
        )
    if given != FORMAT:
        raise InputError(
            f"Result.load: {path} has format {given!r}, of sciml-par {wrote}; this version reads "
            f"format {FORMAT}. Load it with that version."
        )


def _no_summary(folder: Path) -> str:
    if folder.is_file():
        return f"Result.load: expected the folder that Result.save has written; {folder} is a file."
    if not folder.exists():
        return f"Result.load: there is no folder {folder} (in {Path.cwd()})."
    if (folder / PREDICTIONS).exists():
        return (
            f"Result.load: {folder} has no {RESULTS}, which is written last: the run was saved in "
            f"part only."
        )
    return f"Result.load: {folder} holds no results: there is no {RESULTS} in it."


def _check_file(path: Path, digest: str) -> None:
    if not path.is_file():
        raise InputError(f"Result.load: {path} is missing, of which {RESULTS} tells.")
    if digest_of(path) != digest:
        raise InputError(
            f"Result.load: {path} is not the file of which {RESULTS} tells: it is truncated, or "
            f"has been changed since."
        )


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _names_of_terms(summary: dict[str, Any]) -> list[str]:
    """All that any member has, in the order of the columns, which those of others follow."""
    return list(dict.fromkeys(name for entry in summary["members"] for name in entry["terms"]))


def _read_history(path: Path, terms_of_all: Sequence[str]) -> dict[int, History]:
    """The history of each member, with what any of them has: terms, unknowns, weights."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        names = next(rows)[len(FIRST_COLUMNS) :]
        count = len(terms_of_all)
        table = np.array([[float(cell or "nan") for cell in row] for row in rows])
    found = {}
    for number in map(int, np.unique(table[:, 1])):
        steps, _, losses, *columns = table[table[:, 1] == number].T
        terms = dict(zip(names[:count], columns[:count], strict=True))
        others = list(zip(names[count:], columns[count:], strict=True))
        found[number] = History(
            number,
            steps.astype(np.int64),
            losses,
            terms,
            {n.removeprefix(UNKNOWN): v for n, v in others if n.startswith(UNKNOWN)},
            {n.removeprefix(WEIGHT): v for n, v in others if n.startswith(WEIGHT)},
        )
    return found


def _member(
    entry: dict[str, Any],
    arrays: Arrays,
    weights: Arrays,
    histories: Mapping[int, History],
) -> Member:
    number = entry["member"]
    at = int(np.flatnonzero(arrays["member"] == number)[0])
    history = histories[number]
    coordinates, outputs = tuple(entry["coordinates"]), tuple(entry["outputs"])

    def predicted(x: Array, u: Array, exact: Array, inside: Array) -> Prediction:
        return Prediction(
            "prediction", x, u, exact, inside=inside, coordinates=coordinates, fields=outputs
        )

    prediction = own = predicted(
        arrays["x"], arrays["u"][at], arrays["u_exact"][at], arrays["inside"]
    )
    mine = arrays["member_own"] == number
    if not np.array_equal(arrays["x_own"][mine], arrays["x"]):
        own = predicted(
            *(arrays[name][mine] for name in ("x_own", "u_own", "u_own_exact", "inside_own"))
        )
    names = (
        "rank problem seed steps steps_asked ended best_step kept times_brought_together "
        "largest_drift architecture"
    )
    return Member(
        number=number,
        **{name: entry[name] for name in names.split()},
        loss=_number(entry["loss"], math.nan),
        best_loss=_number(entry["best_loss"], math.inf),
        validation_loss=_number(entry.get("validation_loss"), math.nan),
        zero_loss=_number(entry.get("zero_loss"), math.nan),
        misfits=dict(entry.get("misfits", [])),
        loss_steps=history.steps,
        losses=history.losses,
        terms=tuple(entry["terms"]),
        term_losses=np.stack([history.terms[name] for name in entry["terms"]], axis=1),
        term_weights=_weights(history, entry["terms"]),
        stacked_with=tuple(entry["stacked_with"]),
        prediction=prediction,
        on_own_domain=own,
        weights=Weights(weights[f"best_{number}"], weights[f"last_{number}"]),
        contributions=tuple(_contribution(each, number, arrays) for each in entry["per_rank"]),
        unknown_values=_unknowns(entry.get("unknowns", []), history),
        form=as_form(entry["field"]),
    )


def _unknowns(entries: Sequence[dict[str, Any]], history: History) -> UnknownValues:
    """What a member found of its unknowns; the history has a column for each number."""
    if not entries:
        return NO_UNKNOWNS

    def numbers(key: str) -> Array:
        return np.concatenate([np.ravel(np.asarray(each[key], np.float64)) for each in entries])

    values = UnknownValues(
        {each["name"]: tuple(each["shape"]) for each in entries},
        {e["name"]: np.asarray(e["true"], np.float64) for e in entries if e["true"] is not None},
        numbers("best"),
        numbers("last"),
    )
    columns = [history.unknowns[name] for name in values.names]
    return replace(values, history=np.stack(columns, axis=1))


def _weights(history: History, names: Sequence[str]) -> Array:
    """What a strategy has multiplied the terms by, [s, T], or [s, 0] without one."""
    if not history.weights:
        return np.empty((len(history.steps), 0))
    return np.stack([history.weights[name] for name in names], axis=1)


def _contribution(entry: dict[str, Any], number: int, arrays: Arrays) -> RankContribution:
    rank = entry["rank"]
    mine = (arrays["member_trained"] == number) & (arrays["rank_trained"] == rank)
    corners = None if entry["lower"] is None else (entry["lower"], entry["upper"])
    return RankContribution(
        rank=rank,
        points=entry["points"],
        shard=Shard(f"rank {rank}", arrays["x_trained"][mine], corners),
        seconds_compile=entry["seconds_compile"],
        seconds_train=entry["seconds_train"],
    )


def _number(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)
