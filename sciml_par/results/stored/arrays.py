"""The arrays of a run and its history, as they are written next to results.json and read again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.checks.arrays import Array
from sciml_par.results.member import FINISHED, History, Member
from sciml_par.results.stored.codec import arrays_of

Arrays = Mapping[str, Array]

PREDICTIONS, WEIGHTS, FUNCTIONS = "predictions.npz", "weights.npz", "functions.npz"
HISTORY = "history.csv"

_KINDS = {"terms": "", "unknowns": "unknown_", "weights": "weight_"}
"""Kinds of columns of history.csv, as of `History`, and how their names begin."""
_FIRST = ("step", "member", "loss")

# The attributes of a prediction, and what files call them on own domains and of functions.
_PREDICTION = ("x", "u", "exact", "inside")
_OWN = ("x_own", "u_own", "u_own_exact", "inside_own")
_ERROR = "error_own"
_FUNCTION = ("x", "k", "true", "inside")

# Names of arrays of one member, or of one of its functions or observations, behind their own.
OF_OBSERVED, OF_OWNER = "{{}}_observed_{}_{}", "{{}}_{}"
STEPS = "steps_{}"


def arrays_of_predictions(members: Sequence[Member]) -> dict[str, Array]:
    """Return what predictions.npz holds."""
    own = [member.on_own_domain for member in members]
    samples = [(m.number, each) for m in members for each in m.contributions]
    lengths = [len(each.sample) for _, each in samples]
    pairs = zip(_OWN, _PREDICTION, strict=True)
    inside: Any = members[0].prediction.inside
    return {
        "x": members[0].prediction.x,
        "u": np.stack([m.prediction.u for m in members]),
        "u_exact": np.stack([m.prediction.exact for m in members]),
        "inside": inside,
        **{key: np.concatenate([getattr(each, name) for each in own]) for key, name in pairs},
        "member_own": np.repeat([m.number for m in members], [len(each.x) for each in own]),
        "x_trained": np.concatenate([each.sample for _, each in samples]),
        "member_trained": np.repeat([number for number, _ in samples], lengths),
        "rank_trained": np.repeat([each.rank for _, each in samples], lengths),
        "rank": np.array([m.rank for m in members]),
        "member": np.array([m.number for m in members]),
        "finished": np.array([m.status == FINISHED for m in members]),
        **_estimates(members),
        **{
            name: array
            for m in members
            for k, each in enumerate(m.observations)
            for name, array in arrays_of(each, OF_OBSERVED.format(m.number, k)).items()
        },
    }


def _estimates(members: Sequence[Member]) -> dict[str, Array]:
    """Return the estimated errors at the points of the own domains, if there are values."""
    found, any_of_them = [], False
    for member in members:
        u, error = member.on_own_domain.u, member.error
        here = error is not None and error.values.shape == u.shape
        found.append(error.values if error is not None and here else np.full_like(u, np.nan))
        any_of_them |= here
    return {_ERROR: np.concatenate(found)} if any_of_them else {}


def estimate_of(arrays: Arrays, number: int) -> Array | None:
    """Return the estimated error of a member at the points of its own domain, [k, m], if stored."""
    if _ERROR not in arrays:
        return None
    values = arrays[_ERROR][arrays["member_own"] == number]
    return None if np.isnan(values).all() else values


def predictions_of(
    arrays: Arrays, number: int, coordinates: Sequence[str], fields: Sequence[str]
) -> tuple[Prediction, Prediction]:
    """Return what a member predicts on the common points, and on its own domain."""
    at = int(np.flatnonzero(arrays["member"] == number)[0])
    values = arrays["x"], arrays["u"][at], arrays["u_exact"][at], arrays["inside"]
    prediction = _prediction(values, coordinates, fields)
    mine = arrays["member_own"] == number
    own = [arrays[key][mine] for key in _OWN]
    same = np.array_equal(own[0], arrays["x"])
    return prediction, prediction if same else _prediction(own, coordinates, fields)


def _prediction(
    values: Iterable[Array], coordinates: Sequence[str], fields: Sequence[str]
) -> Prediction:
    x, u, exact, inside = values
    return Prediction(
        "prediction",
        x,
        u,
        exact,
        inside=inside,
        coordinates=tuple(coordinates),
        fields=tuple(fields),
    )


def arrays_of_weights(members: Sequence[Member]) -> dict[str, Array]:
    """Return what weights.npz holds."""
    found: dict[str, Array] = {}
    for member in members:
        found |= arrays_of(member.weights, OF_OWNER.format(member.number))
        if member.linearized is not None and member.linearized.known:
            found[STEPS.format(member.number)] = member.linearized.steps
    return found


def arrays_of_functions(members: Sequence[Member]) -> dict[str, Array]:
    """Return what functions.npz holds, of which there is none without unknown functions."""
    found: dict[str, Array] = {}
    for member in members:
        for each in member.functions:
            owner = OF_OWNER.format(f"{member.number}_{each.name}")
            for key, name in zip(_FUNCTION, _PREDICTION, strict=True):
                found[owner.format(key)] = getattr(each.prediction, name)
            found |= arrays_of(each.weights, owner)
    return found


def prediction_of_function(arrays: Arrays, owner: str, inputs: Sequence[str]) -> Prediction:
    """Return the values of an unknown function, which its "number_name" names."""
    _, name = owner.split("_", 1)
    columns = [arrays[OF_OWNER.format(owner).format(key)] for key in _FUNCTION]
    found = _prediction(columns, inputs, [name])
    return found if found.known else replace(found, u_exact=None)


def write_history(members: Sequence[Member], path: Path) -> None:
    """Write a row for each recorded loss; cells of columns that a member lacks stay empty."""
    recorded = [vars(replace(m.history, unknowns=m.unknown_values.columns)) for m in members]
    names = [
        (kind, name)
        for kind in _KINDS
        for name in dict.fromkeys(name for found in recorded for name in found[kind])
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*_FIRST, *(_KINDS[kind] + name for kind, name in names)])
        for member, found in zip(members, recorded, strict=True):
            columns = [found[kind].get(name) for kind, name in names]
            for k, (step, loss) in enumerate(zip(member.loss_steps, member.losses, strict=True)):
                cells = ["" if column is None else repr(float(column[k])) for column in columns]
                writer.writerow([int(step), member.number, repr(float(loss)), *cells])


def read_history(path: Path, terms: int) -> dict[int, History]:
    """Return the rows of each member, a column for each number; the first are those of all terms.

    Columns that a member lacks are NaN.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        names = next(rows)[len(_FIRST) :]
        table = np.array([[float(cell or "nan") for cell in row] for row in rows])
    found = {}
    for number in map(int, np.unique(table[:, 1])):
        steps, _, losses, *values = table[table[:, 1] == number].T
        found[number] = History(number, steps.astype(np.int64), losses, {})
        for k, (name, column) in enumerate(zip(names, values, strict=True)):
            others = "unknowns" if name.startswith(_KINDS["unknowns"]) else "weights"
            kind = "terms" if k < terms else others
            getattr(found[number], kind)[name.removeprefix(_KINDS[kind])] = column
    return found


def table_of(columns: Mapping[str, Array], names: Sequence[str]) -> Array:
    """Return the columns of these names, [s, k]."""
    return np.stack([columns[name] for name in names], axis=1)
