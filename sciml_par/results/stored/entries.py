"""The entries of results.json: how they are written, and read again by the same lists of names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.parts.data import Shard
from sciml_par.problems.unknowns.placed_function import Input, PlacedFunction
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.results.data_fit import DataFit
from sciml_par.results.error_by_window import ErrorByWindow
from sciml_par.results.error_estimate import ErrorEstimate, ValuesAt
from sciml_par.results.growth import Growth
from sciml_par.results.member import Member, RankContribution
from sciml_par.results.member_function import MemberFunction
from sciml_par.results.stored.arrays import (
    FUNCTIONS,
    PREDICTIONS,
    TERM,
    UNKNOWN,
    WEIGHT,
    WEIGHTS,
    Arrays,
    Recorded,
    estimate_of,
    prediction_of_function,
    predictions_of,
    sample_of,
    weights_of,
)
from sciml_par.results.stored.uncertainty import (
    read_linearized,
    read_observations,
    write_linearized,
    write_observations,
)
from sciml_par.results.trained_field import FieldForm
from sciml_par.results.unknown_values import NO_UNKNOWNS, UnknownValues, relative_error

Array = npt.NDArray[Any]
Entry = dict[str, Any]

# Written and read as they are, but for tuples, and for null in place of NaN.
_OF_MEMBER = (
    "rank problem seed ended steps steps_asked loss best_loss best_step validation_loss zero_loss "
    "kept terms times_brought_together largest_drift stacked_with architecture"
)
_OF_ERROR = (
    "relative absolute reliability own_error reason seconds at_rounding between undetermined"
)
_OF_FIT = "values degrees_of_freedom chi_square deviation scale loss robust"
_OF_CONTRIBUTION = "rank points seconds_compile seconds_train"
_OF_FUNCTION = "start lower upper scale"
_TOLD = "status points seconds_compile seconds_train microseconds_per_step"
"""Written for who reads the file; a member computes them again."""


def _written(record: Any, names: str) -> Entry:
    return {name: _as_json(getattr(record, name)) for name in names.split()}


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(map(_as_json, value)) if isinstance(value, tuple) else value


def _read(entry: Entry, names: str) -> dict[str, Any]:
    return {name: _from_json(entry[name]) for name in names.split()}


def _from_json(value: Any) -> Any:
    if value is None:
        return math.nan
    return tuple(map(_from_json, value)) if isinstance(value, list) else value


def write_member(member: Member) -> Entry:
    """Return what results.json holds of a member."""
    seen, own = member.prediction, member.on_own_domain
    return {
        "member": member.number,
        **_written(member, _OF_MEMBER),
        **_written(member, _TOLD),
        "coordinates": list(seen.coordinates),
        "outputs": list(seen.fields),
        "relative_l2_error": _as_json(own.relative_l2_error),
        "relative_l2_error_on_evaluation_domain": _as_json(seen.relative_l2_error),
        "misfits": list(member.misfits.items()),
        "held_out": dict(member.held_out),
        "fits": {name: _written(fit, _OF_FIT) for name, fit in member.fits.items()},
        "field": asdict(member.form),
        "error": _write_error(member.error),
        "uncertainty": write_linearized(member.linearized),
        "observations": write_observations(member.observations),
        "growths": [each._asdict() for each in member.growths],
        "sizes": dict(member.sizes),
        "most_left": member.most_left,
        "unknowns": _write_unknowns(member),
        "unknown_functions": [_write_function(each) for each in member.functions],
        "per_rank": [
            _written(each, f"{_OF_CONTRIBUTION} lower upper") for each in member.contributions
        ],
    }


def read_member(entry: Entry, arrays: Mapping[str, Arrays], history: Recorded) -> Member:
    """Return a member but for its field, of its entry and what the other files hold of it."""
    found, number = _read(entry, _OF_MEMBER), entry["member"]
    if entry["best_loss"] is None:
        found["best_loss"] = math.inf
    seen = arrays[PREDICTIONS]
    prediction, own = predictions_of(seen, number, entry["coordinates"], entry["outputs"])
    return Member(
        **found,
        number=number,
        loss_steps=history.steps,
        losses=history.losses,
        term_losses=history.table(TERM, found["terms"]),
        term_weights=history.table(WEIGHT, found["terms"]),
        prediction=prediction,
        on_own_domain=own,
        weights=weights_of(arrays[WEIGHTS], number),
        contributions=tuple(
            _read_contribution(each, sample_of(seen, number, each["rank"]))
            for each in entry["per_rank"]
        ),
        misfits=dict(entry["misfits"]),
        held_out=entry.get("held_out", {}),
        fits={n: DataFit(**_read(e, _OF_FIT)) for n, e in entry.get("fits", {}).items()},
        unknown_values=_read_unknowns(entry["unknowns"], history),
        functions=tuple(
            _read_function(each, f"{number}_{each['name']}", arrays[FUNCTIONS])
            for each in entry["unknown_functions"]
        ),
        form=_read_form(entry["field"]),
        error=_read_error(entry["error"], own.x, estimate_of(seen, number)),
        linearized=read_linearized(entry.get("uncertainty"), arrays[WEIGHTS], number),
        observations=read_observations(entry.get("observations", ()), seen, number),
        growths=tuple(Growth(**each) for each in entry.get("growths", ())),
        sizes=entry.get("sizes", {}),
        **({"most_left": entry["most_left"]} if "most_left" in entry else {}),
    )


def _write_error(error: ErrorEstimate | None) -> Entry | None:
    if error is None:
        return None
    unknowns = {name: np.asarray(value).tolist() for name, value in error.unknowns.items()}
    absolute = [_as_json(float(each)) for each in error.absolute]
    found = {**_written(error, _OF_ERROR), "absolute": absolute, "unknowns": unknowns}
    return found if error.by_window is None else {**found, "by_window": error.by_window.to_lists()}


def _read_error(entry: Entry | None, x: Array, values: Array | None) -> ErrorEstimate | None:
    """Return an estimate with its values at x, which older files do not hold."""
    if entry is None:
        return None
    entry = {"between": False, "own_error": None, "undetermined": [], **entry}
    absolute = np.array([_from_json(each) for each in entry["absolute"]], np.float64)
    windows = entry.get("by_window")
    found = ErrorEstimate(
        **{**_read(entry, _OF_ERROR), "absolute": absolute},
        unknowns=entry["unknowns"],
        by_window=windows and ErrorByWindow.from_lists(windows),
    )
    return found if values is None else replace(found, values=values, evaluate=ValuesAt(x, values))


def _read_form(entry: Entry) -> FieldForm:
    box, domain = (
        None if corners is None else (tuple(corners[0]), tuple(corners[1]))
        for corners in (entry["box"], entry["domain"])
    )
    return FieldForm(box, entry["ansatz"], domain)


def _read_contribution(entry: Entry, sample: Array) -> RankContribution:
    corners = None if entry["lower"] is None else (entry["lower"], entry["upper"])
    shard = Shard(f"rank {entry['rank']}", sample, corners)
    return RankContribution(**_read(entry, _OF_CONTRIBUTION), shard=shard)


def _write_unknowns(member: Member) -> list[Entry]:
    values = member.unknown_values
    kept, best, last = map(values.by_name, (member.kept_unknowns, values.best, values.last))
    found = []
    for name, shape in values.shapes.items():
        true = values.true.get(name)
        numbers = {"value": kept[name], "best": best[name], "last": last[name], "true": true}
        error = relative_error(kept[name], true)
        entry = {"name": name, "shape": shape, **numbers, "relative_error": error}
        found.append({key: _as_json(value) for key, value in entry.items()})
    return found


def _read_unknowns(entries: Sequence[Entry], history: Recorded) -> UnknownValues:
    if not entries:
        return NO_UNKNOWNS
    best, last = (
        np.concatenate([np.ravel(np.asarray(each[key], np.float64)) for each in entries])
        for key in ("best", "last")
    )
    shapes = {each["name"]: tuple(each["shape"]) for each in entries}
    true = {e["name"]: np.asarray(e["true"], np.float64) for e in entries if e["true"] is not None}
    values = UnknownValues(shapes, true, best, last)
    return replace(values, history=history.table(UNKNOWN, values.names))


def _write_function(function: MemberFunction) -> Entry:
    placed = function.placed
    return {
        "name": placed.name,
        "inputs": [asdict(each) for each in placed.inputs],
        **_written(placed.function, _OF_FUNCTION),
        "box": placed.box(scaled=False),
        "coordinates": list(placed.coordinates),
        "scaled": function.scaled,
        "architecture": function.architecture,
        "relative_error": _as_json(function.prediction.relative_l2_error),
    }


def _read_function(entry: Entry, owner: str, arrays: Arrays) -> MemberFunction:
    inputs = tuple(Input(**each) for each in entry["inputs"])
    names, coordinates = tuple(each.name for each in inputs), tuple(entry["coordinates"])
    function = UnknownFunction(**{name: entry[name] for name in _OF_FUNCTION.split()}, of=names)
    lower, upper = (np.array(corner, np.float64) for corner in entry["box"])
    return MemberFunction(
        placed=PlacedFunction(entry["name"], function, inputs, lower, upper, coordinates),
        scaled=entry["scaled"],
        architecture=entry["architecture"],
        prediction=prediction_of_function(arrays, owner, names),
        weights=weights_of(arrays, owner),
    )
