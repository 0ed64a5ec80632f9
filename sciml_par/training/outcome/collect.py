"""From what each rank has found to one result: numbers for all ranks, arrays for rank 0."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.allgather import allgather
from sciml_par.parallel.collectives.alltoall import alltoall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member, RankContribution
from sciml_par.results.member_function import members_of_functions
from sciml_par.training.outcome.sent_members import FieldsElsewhere, Sent, elsewhere

FloatArray = npt.NDArray[np.float64]

# More marks than this in a figure are one dark band.
_POINTS_IN_A_FIGURE = 2000
_BYTES_PER_PART = 1 << 24
"""What rank 0 receives at a time."""
_ON_THE_HOST = "/CPU:0"


def sample_for_figures(points: FloatArray, ranks: int) -> FloatArray:
    """As many of a rank's points as it may add to a figure: [k, d] of [n, d], in order.

    First and last are among them. They are chosen at random, since every tenth point of a grid
    lies on other lines than the grid; and alike for alike numbers of points.
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

    Every rank learns the numbers. Predictions, weights, networks and samples of points go to rank
    0 alone, so that the memory of no other rank grows with the number of ranks and points.
    """
    mine = [member for member in found if member.rank == communicator.rank]
    numbers = communicator.allgather_object([_without_arrays(member) for member in found])
    histories = _histories(mine, communicator)
    rank = communicator.rank
    sent = Sent.of(found, rank, _models_to_send(found, numbers, rank))
    of_ranks = objects_to_root(sent, communicator)
    fields = FieldsElsewhere(found, of_ranks, problem_of)
    members = {member.number: member for member in found}
    contributions: dict[int, list[RankContribution]] = {}
    for other, theirs in enumerate(numbers):
        told = of_ranks[other] if of_ranks else sent if other == rank else None
        for j, member in enumerate(theirs):
            (contribution,) = member.contributions
            if told is not None:
                contribution = contribution.with_sample(told.samples[j])
            contributions.setdefault(member.number, []).append(contribution)
            if member.number not in members:
                known = member if told is None else fields.with_field(told.restored(member))
                members[member.number] = known
    return tuple(
        replace(
            members[number],
            contributions=tuple(contributions[number]),
            **_history(histories[number], members[number]),
        )
        for number in sorted(members)
    )


def _models_to_send(
    found: Sequence[Member], numbers: Sequence[Sequence[Member]], rank: int
) -> dict[str, Any]:
    """The models of architectures that rank 0 has not, where this rank is the first that has."""
    owner: dict[str, int] = {}
    for each, theirs in enumerate(numbers):
        for member in (*theirs, *members_of_functions(theirs)):
            owner.setdefault(member.architecture, each)
    models = {}
    for member in (*found, *members_of_functions(found)):
        if rank > 0 and owner[member.architecture] == rank:
            models[member.architecture] = member.field.model
    return models


def _without_arrays(member: Member) -> Member:
    (contribution,) = member.contributions
    return replace(
        member,
        loss_steps=member.loss_steps[:0],
        losses=member.losses[:0],
        term_losses=member.term_losses[:0],
        unknown_values=member.unknown_values.without_history(),
        term_weights=member.term_weights[:0],
        prediction=elsewhere(member.prediction),
        on_own_domain=elsewhere(member.on_own_domain),
        weights=None,
        field=None,
        error=None if member.error is None else member.error.without_field(),
        functions=tuple(each.elsewhere() for each in member.functions),
        contributions=(contribution.with_sample(contribution.sample[:0]),),
    )


def _histories(mine: Sequence[Member], communicator: Communicator) -> dict[int, FloatArray]:
    """Return the recorded losses of all members on all ranks, as rows of a table (collective)."""
    longest = max(communicator.allgather_object(max(map(_width, mine), default=0)))
    rows = [np.empty((0, longest + 3))]
    for member in mine:
        parts = np.full((len(member.losses), longest), np.nan)
        unknowns = member.unknown_values
        known = [member.term_losses, member.term_weights]
        known += [unknowns.history] if unknowns.size else []
        parts[:, : _width(member)] = np.hstack(known)
        whose = np.full(len(parts), member.number)
        rows.append(np.column_stack([whose, member.loss_steps, member.losses, parts]))
    table = rows_to_all(np.concatenate(rows), communicator)
    return {int(number): table[table[:, 0] == number, 1:] for number in np.unique(table[:, 0])}


def _width(member: Member) -> int:
    """Return how many columns its records have beside step and loss."""
    return len(member.terms) + member.term_weights.shape[1] + member.unknown_values.size


def _history(rows: FloatArray, member: Member) -> dict[str, Any]:
    """What a member has of its rows of step, loss, terms, their weights and unknowns."""
    unknowns = member.unknown_values
    ends = np.cumsum([2, len(member.terms), member.term_weights.shape[1], unknowns.size])
    return {
        "loss_steps": rows[:, 0].astype(np.int64),
        "losses": rows[:, 1],
        "term_losses": rows[:, ends[0] : ends[1]],
        "term_weights": rows[:, ends[1] : ends[2]],
        "unknown_values": replace(unknowns, history=rows[:, ends[2] : ends[3]]),
    }


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


def rows_to_all(rows: FloatArray, communicator: Communicator) -> FloatArray:
    """Every rank's rows, one below the other, on every rank (collective)."""
    with tf.device(_ON_THE_HOST):
        tensor = tf.constant(rows, tf.float64)
    gathered = allgather(
        tensor, communicator=communicator, device=_ON_THE_HOST, name="train.histories"
    )
    return np.asarray(gathered.numpy(), np.float64)
