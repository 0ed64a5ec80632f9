"""Collect the members of all ranks: numbers on all ranks, arrays on rank 0."""

from __future__ import annotations

import pickle
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.one_tensor import alltoall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.results.member import Member, RankContribution
from sciml_par.results.member_function import members_of_functions
from sciml_par.results.stored.keras_models import Fields, load_model

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
    found: Sequence[Member], communicator: Communicator, problem_of: Callable[[int], Problem]
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
        ([m.elsewhere() for m in first], [(n, share.elsewhere()) for n, share in shares])
    )
    models = _models_to_send(found, [theirs for theirs, _ in numbers], rank)
    arrays = [_without_fields(member) for member in first], shares
    sent = objects_to_root((arrays, models), communicator)
    everyone = [part for part, _ in sent] or numbers
    everyone[rank] = first, shares
    contributions: dict[int, list[RankContribution]] = defaultdict(list)
    for number, share in chain.from_iterable(theirs for _, theirs in everyone):
        contributions[number].append(share)
    members = {m.number: m for m in chain.from_iterable(part for part, _ in everyone)}
    if sent:
        others = [members[n] for n in members.keys() - {member.number for member in found}]
        of_ranks = [models for _, models in sent]
        for member in _with_fields(others, found, of_ranks, problem_of):
            members[member.number] = member
    for member in found:
        # The numbers of its first rank, with all that this rank alone has.
        elsewhere = vars(member.elsewhere())
        own = {name: value for name, value in vars(member).items() if value is not elsewhere[name]}
        members[member.number] = replace(members[member.number], **own)
    return tuple(
        replace(members[number], contributions=tuple(contributions[number]))
        for number in sorted(members)
    )


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
            models[member.architecture] = _saved(member.field.model)
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


def _with_fields(
    members: Sequence[Member],
    here: Sequence[Member],
    models: Sequence[Mapping[str, bytes | None]],
    problem_of: Callable[[int], Problem],
) -> list[Member]:
    """Return members of other ranks with their fields on rank 0.

    Parameters
    ----------
    here : the members of this rank, whose fields equal ones share.
    models : of each rank, files of models by their architectures, None if Keras cannot save one.
    problem_of : gives the problem of a member by its number.
    """
    files = {name: content for of_rank in models for name, content in of_rank.items()}
    fields = Fields({n: cache(partial(_loaded, c)) for n, c in files.items() if c}, _not_saved)
    for member in here:
        fields.keep(member)
    found = []
    for member in members:
        otherwise = (
            f"the ansatz of member {member.number} differs from that of the problem on rank 0. "
            f"Predict on rank {member.rank}, where it was trained, or give the problem of each "
            f"member: Ensemble(problems=…)."
        )
        problem = None if member.form.ansatz is None else problem_of(member.number)
        found.append(fields.of(member, problem, otherwise))
    return found


def _not_saved(member: Member, _: str | None) -> str:
    return (
        f"the network of member {member.number} is not here, since Keras could not save it. "
        f"Predict on rank {member.rank}, where it was trained, or give the model or the function "
        f"that makes it: Result.load(folder, network=…)."
    )


def _saved(model: Any) -> bytes | None:
    """Return the bytes of the model as Keras saves it; None where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        try:
            model.save(path)
        except Exception:  # Keras and the user's own class raise all kinds
            return None
        return path.read_bytes()


def _loaded(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        path.write_bytes(content)
        return load_model(path)
