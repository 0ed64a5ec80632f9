"""What the ranks of one training must have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.communicator import Communicator
from sciml_par.problems.domain import Box, Interval
from sciml_par.problems.problem import Problem
from sciml_par.training.settings import Settings


def check_consistency(problem: Problem, settings: Settings, communicator: Communicator) -> None:
    """See that all ranks train in the same way, and what belongs together (collective).

    Raises
    ------
    InputError
        On all ranks: other settings on some; in mode "data" another problem; in mode "ensemble"
        problems whose predictions cannot be put side by side.
    """
    everyone = communicator.allgather_object(settings)
    _same("settings", everyone, "Call train with the same options on every rank.")
    sizes = {"dimensions": problem.domain.dimension, "outputs": problem.outputs}
    if settings.mode == "ensemble":
        remedy = "The problems of an ensemble need the same numbers of dimensions and outputs."
        _same("problems", communicator.allgather_object(sizes), remedy)
        return
    problems = communicator.allgather_object({"problem": repr(problem), **sizes})
    remedy = "In mode 'data' all ranks train on one problem; for several, use mode='ensemble'."
    _same("problems", problems, remedy)


def common_domain(problem: Problem, communicator: Communicator) -> Box:
    """The smallest box around the domains of all ranks' problems (collective)."""
    corners = communicator.allgather_object((problem.domain.lower, problem.domain.upper))
    lower = np.min([low for low, _ in corners], axis=0)
    upper = np.max([high for _, high in corners], axis=0)
    return Interval(lower[0], upper[0]) if len(lower) == 1 else Box(lower, upper)


def _same(what: str, everyone: Sequence[Any], remedy: str) -> None:
    for rank, theirs in enumerate(everyone):
        if theirs != everyone[0]:
            raise InputError(
                f"train: rank {rank} has other {what} than rank 0.\n  rank 0: {everyone[0]}\n"
                f"  rank {rank}: {theirs}\n{remedy}"
            )
