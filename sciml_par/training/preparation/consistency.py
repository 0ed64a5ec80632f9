"""Check what the ranks of a training must have in common, and what its members must not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import numpy as np

from sciml_par._text import rank_list, ranks_by
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.member import numbers_text
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.preparation.description import (
    ABSENT,
    SOLVING,
    Description,
    first_difference,
)

_PASS_ON = (
    "Let the function that makes the network take the argument seed and pass it on, as "
    "network=lambda d, m, seed: MLP(d, m, seed=seed)."
)
_REMEDIES = {
    "mode": "Call train in the same mode on every rank.",
    "data": "In mode 'data' all ranks train one model: call train with the same arguments on "
    "every rank, and give all points to each. For several models, use mode='ensemble'.",
    "ensemble": "In mode 'ensemble' only problem, points, network and optimizer may differ from "
    "rank to rank, but not the numbers of dimensions and outputs.",
    SOLVING: "All ranks solve one problem: call solve with the same problem on every rank. Numbers "
    "that are drawn at random need the same seed everywhere.",
}


def check_consistency(description: Description, communicator: Communicator) -> None:
    """Check that all ranks describe the same run (collective)."""
    digest = hashlib.blake2b(repr(list(description.items())).encode(), digest_size=16).digest()
    if len(set(communicator.allgather_object(digest))) == 1:
        return
    everyone = communicator.allgather_object(description)
    name = first_difference(everyone) or "the order of what they describe"
    ranks_with = ranks_by(enumerate(each.get(name, ABSENT) for each in everyone))
    lines = [f"  {rank_list(ranks)}: {value}" for value, ranks in ranks_with.items()]
    mode = everyone[0]["mode"].strip("'")
    remedy = _REMEDIES["mode" if name == "mode" else mode]
    call = SOLVING if mode == SOLVING else "train"
    raise InputError(f"{call}: the ranks differ in {name}.\n" + "\n".join(lines) + f"\n{remedy}")


def check_evaluation_domain(domain: Domain | None, problem: Problem) -> None:
    """Raise an error if a prediction cannot be made there."""
    there = problem.domain
    if domain is None or (isinstance(domain, Domain) and domain.dimension == there.dimension):
        return
    got = f"{domain!r}, of {domain.dimension}" if isinstance(domain, Domain) else repr(domain)
    raise InputError(
        f"train: expected evaluation_domain to be a domain of {there.dimension} coordinates, as "
        f"that of the problem, {there!r}; got {got}."
    )


def common_domain(problem: Problem, communicator: Communicator) -> Domain:
    """Return the domain of all ranks' problems, or the smallest box around theirs (collective)."""
    domain = problem.domain
    everyone = communicator.allgather_object(
        (repr(domain), domain.lower.tolist(), domain.upper.tolist())
    )
    if len({text for text, _, _ in everyone}) == 1:
        return domain
    lower = np.min([low for _, low, _ in everyone], axis=0)
    upper = np.max([high for _, _, high in everyone], axis=0)
    if isinstance(domain, Box):
        return domain.with_bounds(lower, upper)
    return Box(lower, upper, names=domain.names)


def refuse_shared_models(setups: Sequence[MemberSetup]) -> None:
    """Check that no two members have one model."""
    first: dict[int, int] = {}
    for setup in setups:
        for network in (setup.network, *setup.network.others):
            other = first.setdefault(id(network.model), setup.number)
            if other != setup.number:
                raise InputError(
                    f"train: the function that makes networks returned the same object, a "
                    f"{type(network.model).__name__}, for members {other} and {setup.number}. "
                    f"Make the model inside of the function, as "
                    f"network=lambda: keras.Sequential([...])."
                )


def remarks_on_equal_members(
    setups: Sequence[MemberSetup],
    models: Sequence[Description],
    group: Communicator,
    world: Communicator,
    *,
    samples: bool = False,
) -> list[str]:
    """Return sentences on members that are copies of one another (collective).

    samples : whether each seed has another sample of the points.
    """
    mine = [
        (_digest(setup, model) + f"{setup.seed if samples else ''}", setup.seed, setup.number)
        for setup, model in zip(setups, models, strict=True)
        if group.rank == 0
    ]
    found: dict[str, dict[int, int]] = {}
    for digest, seed, number in chain.from_iterable(world.allgather_object(mine)):
        found.setdefault(digest, {})[number] = seed
    return [
        f"{numbers_text(sorted(alike))} are copies of one model: their initial weights, "
        f"problems and points are equal, and so their deviation is zero. "
        + (_PASS_ON if len(set(alike.values())) > 1 else "Give each another one of seeds.")
        for alike in found.values()
        if len(alike) > 1
    ]


def _digest(setup: MemberSetup, model: Description) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for variable in setup.network.trainable_variables:
        digest.update(np.asarray(variable).tobytes())
    digest.update(np.asarray(setup.unknowns).tobytes())
    digest.update(repr(sorted((k, v) for k, v in model.items() if k != "seed")).encode())
    return digest.hexdigest()
