"""Collect the members of all ranks: numbers on all ranks, arrays on rank 0."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.parallel.collectives.one_tensor import alltoall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.member import Member, PredictionElsewhere, RankContribution
from sciml_par.results.member_function import members_of_functions
from sciml_par.training.outcome.fields_elsewhere import FieldsElsewhere, saved

FloatArray = npt.NDArray[np.float64]

_POINTS_IN_A_FIGURE = 2000  # more marks are one dark band
_BYTES_PER_PART = 1 << 24  # that rank 0 receives at a time
_ON_THE_HOST = "/CPU:0"
_ARRAYS = ("prediction", "on_own_domain", "weights", "functions", "field", "error", "linearized")


def sample_for_figures(points: FloatArray, ranks: int) -> FloatArray:
    """Return a rank's points for a figure: [k, d] of [n, d], in order, first and last included.

    They are chosen at random, since every tenth point of a grid lies on other lines than the grid.
    """
    most = max(2, _POINTS_IN_A_FIGURE // ranks)
    if len(points) <= most:
        return points
    inner = np.random.default_rng(0).choice(len(points) - 2, most - 2, replace=False) + 1
    return points[np.sort([0, *inner, len(points) - 1])]


def collect(
    found: Sequence[Member],
    communicator: Communicator,
    problem_of: Callable[[int], Problem] | None = None,
) -> tuple[Member, ...]:
    """Return the members of all ranks, each with what its ranks contributed (collective).

    Every rank learns the numbers and the recorded losses. Predictions, weights, networks and
    samples of points go to rank 0 alone, so that the memory of the others does not grow with the
    number of ranks.
    """
    rank = communicator.rank
    numbers = communicator.allgather_object([_numbers(member, rank) for member in found])
    models = _models_to_send(found, numbers, rank)
    sent = objects_to_root(([_arrays(member, rank) for member in found], models), communicator)
    everyone = [members for members, _ in sent] or numbers
    everyone[rank] = list(found)
    contributions: dict[int, list[RankContribution]] = defaultdict(list)
    members: dict[int, Member] = {}
    for other, theirs in enumerate(everyone):
        for member in theirs:
            contributions[member.number] += member.contributions
            if member.rank == other:
                members[member.number] = member
    here = {member.number: member for member in found}
    fields = FieldsElsewhere(found, [models for _, models in sent], problem_of)
    for number, member in members.items():
        if number in here:
            own = {name: getattr(here[number], name) for name in _ARRAYS}
            members[number] = replace(member, **own)
        elif sent:
            members[number] = fields.with_field(member)
    return tuple(
        replace(members[number], contributions=tuple(contributions[number]))
        for number in sorted(members)
    )


def _numbers(member: Member, rank: int) -> Member:
    """Return the part for all ranks; recorded losses come from the first of a member's ranks."""
    (contribution,) = member.contributions
    known = replace(
        member,
        prediction=_elsewhere(member.prediction),
        on_own_domain=_elsewhere(member.on_own_domain),
        weights=None,
        field=None,
        error=_without_field(member.error),
        linearized=None if member.linearized is None else member.linearized.without_arrays(),
        functions=tuple(each.elsewhere() for each in member.functions),
        contributions=(contribution.with_sample(contribution.sample[:0]),),
    )
    if member.rank == rank:
        return known
    return replace(
        known,
        loss_steps=member.loss_steps[:0],
        losses=member.losses[:0],
        term_losses=member.term_losses[:0],
        unknown_values=member.unknown_values.without_history(),
        term_weights=member.term_weights[:0],
    )


def _arrays(member: Member, rank: int) -> Member:
    """Return the part for rank 0; all arrays come from the first of a member's ranks."""
    if member.rank != rank:
        return replace(_numbers(member, rank), contributions=member.contributions)
    functions = tuple(replace(each, field=None) for each in member.functions)
    error = _without_field(member.error)
    return replace(member, field=None, error=error, functions=functions)


def _without_field(error: ErrorEstimate | None) -> ErrorEstimate | None:
    return None if error is None else error.without_field()


def _elsewhere(prediction: Prediction | PredictionElsewhere) -> PredictionElsewhere:
    return PredictionElsewhere(prediction.known, prediction.relative_l2_error)


def _models_to_send(
    found: Sequence[Member], numbers: Sequence[Sequence[Member]], rank: int
) -> dict[str, bytes | None]:
    """Return the files of models that rank 0 lacks, if this is the first rank that has them."""
    owner: dict[str, int] = {}
    for each, theirs in enumerate(numbers):
        for member in (*theirs, *members_of_functions(theirs)):
            owner.setdefault(member.architecture, each)
    models = {}
    for member in (*found, *members_of_functions(found)):
        if rank > 0 and owner[member.architecture] == rank:
            models[member.architecture] = saved(member.field.model)
    return models


def objects_to_root(own: Any, communicator: Communicator) -> list[Any]:
    """Send every rank's object to rank 0, pickled (collective)."""
    on_root = communicator.rank == 0
    raw = np.frombuffer(b"" if on_root else pickle.dumps(own), np.uint8)
    counts = communicator.allgather_object(len(raw))
    length = max(1, _BYTES_PER_PART // communicator.size)
    whole = [np.empty(n, np.uint8) for n in counts] if on_root else []
    for first in range(0, max(counts), length):
        part = raw[first : first + length]
        splits = [len(part)] + [0] * (communicator.size - 1)
        with tf.device(_ON_THE_HOST):
            tensor = tf.constant(part, tf.uint8)
        received, lengths = alltoall(
            tensor, splits, communicator=communicator, device=_ON_THE_HOST, name="train.gather"
        )
        if on_root:
            pieces = np.split(received.numpy(), np.cumsum(lengths)[:-1])
            for array, piece in zip(whole, pieces, strict=True):
                array[first : first + len(piece)] = piece
    return [pickle.loads(each.tobytes()) if len(each) else own for each in whole]
