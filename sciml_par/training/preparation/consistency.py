"""What the ranks of one training must have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from sciml_par._text import rank_list
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.training.preparation.description import Description

_ABSENT = "nothing"
_REMEDIES = {
    "mode": "Call train in the same mode on every rank.",
    "data": "In mode 'data' all ranks train one model: call train with the same arguments on "
    "every rank, and give all points to each, which deals them out by itself. Where something is "
    "to differ from place to place, make it a function of x; for several models, use "
    "mode='ensemble'.",
    "ensemble": "In mode 'ensemble' problem, points, network and optimizer may differ from rank to "
    "rank; all else, and the numbers of dimensions and outputs, are the same on every rank.",
}


def check_consistency(description: Description, communicator: Communicator) -> None:
    """Check that all ranks describe the same run (collective)."""
    digest = hashlib.blake2b(repr(list(description.items())).encode(), digest_size=16).digest()
    if len(set(communicator.allgather_object(digest))) == 1:
        return
    everyone = communicator.allgather_object(description)
    name = _first_difference(everyone)
    ranks_with: dict[str, list[int]] = {}
    for rank, each in enumerate(everyone):
        ranks_with.setdefault(each.get(name, _ABSENT), []).append(rank)
    lines = [f"  {rank_list(ranks)}: {value}" for value, ranks in ranks_with.items()]
    remedy = _REMEDIES["mode" if name == "mode" else everyone[0]["mode"].strip("'")]
    raise InputError(f"train: the ranks differ in {name}.\n" + "\n".join(lines) + f"\n{remedy}")


def _first_difference(everyone: Sequence[Description]) -> str:
    names = dict.fromkeys(name for each in everyone for name in each)
    for name in names:
        if len({each.get(name, _ABSENT) for each in everyone}) > 1:
            return name
    return "the order of what they describe"


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
