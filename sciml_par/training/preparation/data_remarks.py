"""Remarks on observations: how many there are, and what else determines the solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.training.identity.described import of_array
from sciml_par.training.members.stack import MemberSetup


def unknown_numbers(problem: Problem) -> int:
    """Return q, how many numbers are unknown."""
    return sum(unknown.size for unknown in problem.unknowns.values())


def observed_values(problem: Problem) -> int:
    """Return N, of all observations and other statistical terms, with noise or without."""
    return sum(each.number_of_values for each in problem.conditions)


def remarks_on_data(problem: Problem) -> Iterator[str]:
    """Yield a sentence if there are fewer observed values than unknowns."""
    unknown, observed = unknown_numbers(problem), observed_values(problem)
    if 0 < observed < unknown:
        yield (
            f"the problem has {unknown} unknown numbers and {observed} observed "
            f"value{'' if observed == 1 else 's'}, which cannot determine them; unless the "
            f"equations and conditions alone determine the others, these end anywhere. Observe "
            f"more, or seek fewer."
        )


def notes_on_data(problem: Problem) -> Iterator[str]:
    """Yield a note on a fit without equations of observations with noise."""
    data = [each for each in problem.conditions if each.statistical]
    if not problem.residuals and data and not any(each.held_out for each in data):
        yield (
            "there is no equation, so that only the smoothness of the network keeps it from "
            "fitting the noise of the observations: hold some of them out, as "
            "Observations(…, holdout=0.2), or compare χ²/n with 1, and take a smaller network if "
            "it is far below"
        )


def remarks_on_equal_data(
    setups: Sequence[MemberSetup], group: Communicator, world: Communicator
) -> list[str]:
    """Return a sentence if all members have the same observations with noise (collective)."""
    mine = [_digest(setup.problem) for setup in setups if group.rank == 0]
    found = list(chain.from_iterable(world.allgather_object(mine)))
    if len(found) < 2 or len(set(found)) > 1 or not found[0]:
        return []
    return [
        "all members have the same observations, so that their deviation shows how well the "
        "training has converged, and not what the noise of the observations leaves open. For the "
        "latter take result.uncertainty(member=0), or Ensemble(..., bootstrap=True)."
    ]


def _digest(problem: Problem) -> tuple[str, ...]:
    return tuple(
        of_array(array)
        for each in problem.conditions
        if isinstance(each, Observations) and each.noise is not None
        for array in (each.x, each.u, each.noise)
    )
