"""The members of results.json: how they are written, and read again from all files of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sciml_par.evaluation.figures.parts.data import Shard
from sciml_par.evaluation.figures.parts.observed import Observed
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.problems.unknowns.unknowns import Unknown, names_of_numbers
from sciml_par.results.error_estimate import ErrorByWindow, ErrorEstimate, ValuesAt
from sciml_par.results.linearized import Linearized
from sciml_par.results.member import History, Member, RankContribution, Weights
from sciml_par.results.member_function import MemberFunction
from sciml_par.results.stored.arrays import (
    FUNCTIONS,
    OF_OBSERVED,
    OF_OWNER,
    PREDICTIONS,
    STEPS,
    WEIGHTS,
    Arrays,
    estimate_of,
    prediction_of_function,
    predictions_of,
    table_of,
)
from sciml_par.results.stored.codec import Entry, Names, from_json, read, to_json, with_arrays
from sciml_par.results.trained_field import FieldForm
from sciml_par.results.unknown_values import NO_UNKNOWNS, UnknownValues, relative_error

_NAMES: Names = {
    Member: (
        "member=number rank problem seed ended steps steps_asked loss best_loss best_step "
        "validation_loss zero_loss kept terms times_brought_together largest_drift stacked_with "
        "architecture status points seconds_compile seconds_train microseconds_per_step "
        "coordinates=prediction.coordinates outputs=prediction.fields "
        "relative_l2_error=on_own_domain.relative_l2_error "
        "relative_l2_error_on_evaluation_domain=prediction.relative_l2_error misfits held_out fits "
        "field=form error uncertainty=linearized observations growths sizes most_left unknowns "
        "unknown_functions=functions per_rank=contributions"
    ),
    ErrorEstimate: (
        "relative absolute reliability own_error reason seconds at_rounding between undetermined "
        "unknowns by_window"
    ),
    ErrorByWindow: "lower upper residual error",
    Linearized: (
        "rows chi_square freedom degrees scale dependence reason seconds unknowns parameters shift"
    ),
    MemberFunction: (
        "name inputs=placed.inputs start=placed.function.start lower=placed.function.lower "
        "upper=placed.function.upper scale=placed.function.scale box=placed.lower,placed.upper "
        "coordinates=placed.coordinates scaled architecture "
        "relative_error=prediction.relative_l2_error"
    ),
    Observed: "label components",
    RankContribution: "rank points seconds_compile seconds_train lower upper",
    Unknown: "start lower upper scale",
}
"""What entries are called, in their order; some are for who reads the file alone."""


def write_member(member: Member) -> Entry:
    """Return what results.json holds of a member."""
    entry: Entry = to_json(member, _NAMES)
    # In a list, names keep their order in all programs.
    entry["misfits"] = list(member.misfits.items())
    entry["unknowns"] = _write_unknowns(member)
    if member.error is not None and member.error.by_window is None:
        del entry["error"]["by_window"]
    if (linearized := member.linearized) is not None:
        deviations = to_json(np.sqrt(np.diag(linearized.covariance)))
        names = names_of_numbers(linearized.unknowns)
        entry["uncertainty"]["deviations"] = dict(zip(names, deviations, strict=True))
    return entry


def read_member(entry: Entry, arrays: Mapping[str, Arrays], history: History) -> Member:
    """Return a member but for its field, of its entry and what the other files hold of it.

    Older files lack some entries and arrays, which have their defaults.
    """
    number, seen, weights = entry["member"], arrays[PREDICTIONS], arrays[WEIGHTS]
    prediction, own = predictions_of(seen, number, entry["coordinates"], entry["outputs"])
    error = from_json(ErrorEstimate | None, entry["error"])
    if error is not None and (values := estimate_of(seen, number)) is not None:
        error = replace(error, values=values, evaluate=ValuesAt(own.x, values))
    weighed = not all(np.isnan(column).all() for column in history.weights.values())
    linearized = entry.get("uncertainty")
    steps = weights.get(STEPS.format(number), np.empty((0, 0)))
    return read(
        Member,
        entry,
        number=number,
        loss_steps=history.steps,
        losses=history.losses,
        term_losses=table_of(history.terms, entry["terms"]),
        term_weights=table_of(history.weights, entry["terms"]) if weighed else np.empty((0, 0)),
        prediction=prediction,
        on_own_domain=own,
        weights=with_arrays(Weights, {}, weights, OF_OWNER.format(number)),
        contributions=tuple(_read_contribution(share, number, seen) for share in entry["per_rank"]),
        unknown_values=_read_unknowns(entry["unknowns"], history),
        functions=tuple(
            _read_function(function, f"{number}_{function['name']}", arrays[FUNCTIONS])
            for function in entry["unknown_functions"]
        ),
        form=read(FieldForm, entry["field"]),
        field=None,
        error=error,
        linearized=linearized and read(Linearized, linearized, steps=steps),
        observations=tuple(
            with_arrays(Observed, observed, seen, OF_OBSERVED.format(number, k))
            for k, observed in enumerate(entry.get("observations", ()))
        ),
    )


def _read_contribution(entry: Entry, number: int, arrays: Arrays) -> RankContribution:
    corners = None if entry["lower"] is None else (entry["lower"], entry["upper"])
    mine = (arrays["member_trained"] == number) & (arrays["rank_trained"] == entry["rank"])
    sample = arrays["x_trained"][mine]
    return read(RankContribution, entry, shard=Shard(f"rank {entry['rank']}", sample, corners))


def _write_unknowns(member: Member) -> list[Entry]:
    values = member.unknown_values
    kept, best, last = map(values.by_name, (member.kept_unknowns, values.best, values.last))
    entries = []
    for name, shape in values.shapes.items():
        true = values.true.get(name)
        numbers = {"value": kept[name], "best": best[name], "last": last[name], "true": true}
        error = relative_error(kept[name], true)
        entries.append(to_json({"name": name, "shape": shape, **numbers, "relative_error": error}))
    return entries


def _read_unknowns(entries: Sequence[Entry], history: History) -> UnknownValues:
    if not entries:
        return NO_UNKNOWNS
    best, last = (
        np.concatenate([np.ravel(np.asarray(entry[key], np.float64)) for entry in entries])
        for key in ("best", "last")
    )
    shapes = {entry["name"]: tuple(entry["shape"]) for entry in entries}
    true = {e["name"]: np.asarray(e["true"], np.float64) for e in entries if e["true"] is not None}
    values = UnknownValues(shapes, true, best, last)
    return replace(values, history=table_of(history.unknowns, values.names))


def _read_function(entry: Entry, owner: str, arrays: Arrays) -> MemberFunction:
    names = tuple(argument["name"] for argument in entry["inputs"])
    lower, upper = (np.array(corner, np.float64) for corner in entry["box"])
    function = read(UnknownFunction, entry, of=names)
    return MemberFunction(
        read(PlacedFunction, entry, function=function, lower=lower, upper=upper),
        entry["scaled"],
        entry["architecture"],
        prediction_of_function(arrays, owner, names),
        with_arrays(Weights, {}, arrays, OF_OWNER.format(owner)),
    )
