"""Members with the best or last weights, and members of several results as those of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.member import Member, PredictionElsewhere
from sciml_par.results.predict import field_of_member, kept_weights

# What only `train` computes.
_UNKNOWN: Any = {
    "validation_loss": math.nan,
    "zero_loss": math.nan,
    "misfits": {},
    "fits": {},
    "held_out": {},
    "error": None,
    "linearized": None,
}


def all_with_weights(
    members: Sequence[Member], kept: str, communicator: Communicator | None
) -> tuple[Member, ...]:
    """Return members with their "best" or "last" weights; ranks without these have the numbers."""
    if communicator is None:
        return tuple(with_weights(member, kept) for member in members)
    here = [member for member in members if member.weights is not None]
    found = communicator.attempt(lambda: {m.number: with_weights(m, kept) for m in here})
    numbers = communicator.broadcast_object([each.elsewhere() for each in found.values()])
    return tuple(found.get(each.number) or each for each in numbers)


def with_weights(member: Member, kept: str) -> Member:
    """Return a member with its "best" or "last" weights, and what it predicts with them."""
    if member.kept == kept:
        return member
    field = field_of_member(member)
    changed = replace(member, kept=kept, **_UNKNOWN)

    def predict(before: Prediction | PredictionElsewhere) -> Prediction:
        assert isinstance(before, Prediction)
        u = field.at(kept_weights(changed), before.x).astype(np.float64)
        return replace(before, u=u)

    prediction = own = predict(member.prediction)
    if member.on_own_domain is not member.prediction:
        own = predict(member.on_own_domain)
    functions = tuple(
        replace(each, prediction=with_weights(each.as_member(member), kept).prediction)
        for each in member.functions
    )
    return replace(changed, prediction=prediction, on_own_domain=own, functions=functions)


def merge_members(groups: Sequence[Sequence[Member]]) -> tuple[Member, ...]:
    """Return the members of groups that are alike, numbered anew in order."""
    merged: list[Member] = []
    for group in groups:
        new = {member.number: len(merged) + j for j, member in enumerate(group)}
        merged += [
            replace(
                member,
                number=new[member.number],
                stacked_with=tuple(new[n] for n in member.stacked_with if n in new),
            )
            for member in group
        ]
    return tuple(merged)


def check_alike(groups: Sequence[Sequence[Member]]) -> None:
    """Raise if groups were evaluated on different points, as far as these are on this rank."""
    first: Prediction | None = None
    for number, group in enumerate(groups):
        found = group[0].prediction
        if not isinstance(found, Prediction):
            continue
        first = first or found
        if found.components != first.components:
            raise InputError(
                f"Result.merge: expected results with the same outputs; result 0 has "
                f"{first.components}, result {number} has {found.components}."
            )
        if found.x.shape != first.x.shape or not np.array_equal(found.x, first.x):
            raise InputError(
                f"Result.merge: result {number} was evaluated on other points than result 0 "
                f"({list(found.x.shape)}, {list(first.x.shape)}). Train with the same "
                f"evaluation_points and evaluation_domain."
            )
