"""Collect the members of all ranks: numbers on all ranks, arrays on rank 0."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.one_tensor import alltoall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member, RankContribution
from sciml_par.results.member_function import members_of_functions
from sciml_par.training.outcome.fields_elsewhere import saved, with_fields_elsewhere

FloatArray = npt.NDArray[np.float64]

_POINTS_IN_A_FIGURE = 2000  # more marks are one dark band
_BYTES_PER_PART = 1 << 24  # that rank 0 receives at a time
_ON_THE_HOST = "/CPU:0"


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
    problem_of: Callable[[int], Problem],
) -> tuple[Member, ...]:
    """Return the members of all ranks, each with what its ranks contributed (collective).

    Every rank learns the numbers and the recorded losses. Predictions, weights, networks and
    samples of points go to rank 0 alone, so that the memory of the others does not grow with the
    number of ranks.
    """
    rank = communicator.rank
    first = [member for member in found if member.rank == rank]
    shares = [(member.number, member.contributions[0]) for member in found]
    numbers = communicator.allgather_object(
        ([each.elsewhere() for each in first], [(n, each.elsewhere()) for n, each in shares])
    )
    models = _models_to_send(found, [theirs for theirs, _ in numbers], rank)
    arrays = [_without_fields(member) for member in first], shares
    sent = objects_to_root((arrays, models), communicator)
    everyone = [part for part, _ in sent] or numbers
    everyone[rank] = first, shares
    contributions: dict[int, list[RankContribution]] = defaultdict(list)
    for number, share in chain.from_iterable(theirs for _, theirs in everyone):
        contributions[number].append(share)
    members = {each.number: each for each in chain.from_iterable(part for part, _ in everyone)}
    if sent:
        others = [members[n] for n in members.keys() - {member.number for member in found}]
        of_ranks = [models for _, models in sent]
        for member in with_fields_elsewhere(others, found, of_ranks, problem_of):
            members[member.number] = member
    for member in found:
        members[member.number] = _with_arrays_of(member, members[member.number])
    return tuple(
        replace(members[number], contributions=tuple(contributions[number]))
        for number in sorted(members)
    )


def _with_arrays_of(member: Member, numbers: Member) -> Member:
    """Return the numbers of its first rank with all that this rank alone has of a member."""
    elsewhere = member.elsewhere()
    names = [each.name for each in fields(Member)]
    own = {name: getattr(member, name) for name in names}
    return replace(numbers, **{n: v for n, v in own.items() if v is not getattr(elsewhere, n)})


def _without_fields(member: Member) -> Member:
    """Return what can be sent of a member."""
    functions = tuple(replace(each, field=None) for each in member.functions)
    error = member.error and member.error.without_field()
    return replace(member, field=None, error=error, functions=functions)


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
        if rank > 0 and owner.get(member.architecture) == rank:
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
