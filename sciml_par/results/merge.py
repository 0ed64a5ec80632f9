"""Members of several results as those of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.results.member import Member


def merge_members(groups: Sequence[Sequence[Member]]) -> tuple[Member, ...]:
    """The members of all groups, numbered anew in order."""
    check_alike(groups)
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
    """See that all have been evaluated on the same points, as far as these are here."""
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
