"""The unknown functions of all members on rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sciml_par.evaluation.figures.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.member import Member, Weights
from sciml_par.results.member_function import MemberFunction
from sciml_par.training.gather import FloatArray, pieces_to_root

_COLUMNS = 3  # of a point, behind its inputs: value, true value, whether it lies in the domain


def functions_on_root(
    mine: Sequence[Member], members: Sequence[Sequence[Member]], communicator: Communicator
) -> dict[int, tuple[MemberFunction, ...]]:
    """The functions of the members of other ranks, on rank 0; elsewhere nothing (collective).

    Parameters
    ----------
    mine : the members that this rank speaks for.
    members : those that each rank has trained, without arrays.
    """
    if not any(member.functions for theirs in members for member in theirs):
        return {}
    functions = [(member, each) for member in mine for each in member.functions]
    told = communicator.allgather_object([_sizes(member, each) for member, each in functions])
    # Numbers of inputs may differ, so that arrays travel as columns.
    values = pieces_to_root([_table(each).reshape(-1, 1) for _, each in functions], communicator)
    weights = pieces_to_root([_weights(each) for _, each in functions], communicator)
    plain = {member.number: member.functions for theirs in members for member in theirs}
    found: dict[int, list[MemberFunction]] = {}
    for rank in range(1, len(values)):
        pieces = zip(told[rank], values[rank], weights[rank], strict=True)
        for (number, name, rows, dtype), table, pair in pieces:
            like = next(each for each in plain[number] if each.name == name)
            made = _made(like, table.reshape(rows, -1), pair.astype(dtype))
            found.setdefault(number, []).append(made)
    return {number: tuple(each) for number, each in found.items()}


def _sizes(member: Member, function: MemberFunction) -> tuple[int, str, int, str]:
    seen, weights = function.prediction, function.weights
    assert isinstance(seen, Prediction) and weights is not None
    return member.number, function.name, len(seen.x), weights.best.dtype.name


def _table(function: MemberFunction) -> FloatArray:
    seen = function.prediction
    assert isinstance(seen, Prediction)
    return np.hstack([seen.x, seen.u, seen.exact, np.asarray(seen.inside, np.float64)[:, None]])


def _weights(function: MemberFunction) -> Any:
    assert function.weights is not None
    return np.column_stack([function.weights.best, function.weights.last])


def _made(like: MemberFunction, table: FloatArray, weights: Any) -> MemberFunction:
    x, (k, true, inside) = table[:, :-_COLUMNS], table[:, -_COLUMNS:].T
    seen = Prediction(
        "prediction",
        x,
        k[:, None],
        true[:, None],
        inside=inside != 0,
        coordinates=like.placed.names,
        fields=(like.name,),
    )
    return replace(like, prediction=seen, weights=Weights(*weights.T))
