"""The covariance of a trained member's parameters, from the Jacobians at its end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.errors import SciMLParError
from sciml_par.problems.problem import Problem
from sciml_par.results.linearized import Linearized
from sciml_par.results.member import Member
from sciml_par.training.loop.course import Course
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.objective import field_of, jacobians_of
from sciml_par.training.members.stack import Stack
from sciml_par.training.outcome.data_fits import observed_in
from sciml_par.training.outcome.outcome import Outcome
from sciml_par.training.outcome.together import as_training_error, together
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.uncertainty.from_rows import (
    KINDS,
    MOST_PARAMETERS,
    Factors,
    factors_of,
    linearized_by,
    stacked_triangle,
)
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]

_SEED, _DTYPE = 421, "float64"
_ROWS_PER_PARAMETER = 2
_MOST_MEMBERS = 16


def with_uncertainties(
    members: Sequence[Member],
    ready: Preparation,
    courses: Sequence[Course],
    outcomes: Sequence[Outcome],
    asked: bool | None,
    *,
    samples: bool = False,
) -> list[Member]:
    """Return this group's members with how well their data determine them (collective in it).

    samples : whether each member has another sample of the data, of a bootstrap.
    """
    setups = [setup for course in courses for setup in course.stack.setups]
    kept = {s.number: o.kept for s, o in zip(setups, outcomes, strict=True)}
    stacks = {number: course.stack for course in courses for number in course.stack.numbers}
    problems = {setup.number: setup.problem for setup in setups}
    shared: dict[int, Jacobians] = {}
    found = []
    for member in members:
        stack = stacks[member.number]
        why = _obstacle(stack, len(members), asked, samples)
        if why is None:
            found.append(member)
            continue
        if why:
            linearized = Linearized.not_known(why)
        else:
            jacobians = shared.setdefault(id(stack), Jacobians(stack, ready))
            linearized = jacobians.linearized(member.number, kept[member.number])
        observed = observed_in(
            problems[member.number], linearized.scale, with_errors=linearized.known
        )
        found.append(replace(member, linearized=linearized, observations=observed))
    return found


def _obstacle(stack: Stack, members: int, asked: bool | None, samples: bool) -> str | None:
    """Return None where nothing is asked, "" where nothing is in the way, or the obstacle."""
    problem = stack.problem
    if asked is False or not statistical_terms(problem):
        if asked:
            return (
                "no condition has known errors: give Observations(…, noise=σ), the standard "
                "deviation of the observed values"
            )
        return None
    if not problem.residuals:
        return "there is no equation, so that only the network's smoothness restricts a fit"
    if samples:  # all data are not at their optimum there
        return (
            "members of bootstrap=True have samples of the observations; the deviation of the "
            "members is that of the unknowns"
        )
    if asked is None and members > _MOST_MEMBERS:
        return f"of more than {_MOST_MEMBERS} members it is found by train(…, uncertainty=True)"
    if stack.layout.size > MOST_PARAMETERS:
        return (
            f"the model has {stack.layout.size:,} parameters, and at most {MOST_PARAMETERS:,} "
            f"can be linearized; take a smaller network"
        )
    return ""


class Jacobians:
    """The Jacobians of the members of a stack, at more points than they have parameters."""

    def __init__(self, stack: Stack, ready: Preparation) -> None:
        self._stack, self._ready = stack, ready
        problem, network = stack.problem, stack.network
        self._objective = MemberObjective(
            partial(field_of, problem, network),
            stack.terms,
            layout=stack.layout,
            jacobians=jacobians_of(problem, network, stack.layout),
        )
        self._prepared = False

    def linearized(self, number: int, theta: Array) -> Linearized:
        """Return the distribution of a member's parameters at θ: [p] (collective in its group)."""
        began, group = time.perf_counter(), self._ready.group
        try:
            factors = self.factors(number, theta)
            setup = next(each for each in self._stack.setups if each.number == number)
            solve = partial(linearized_by, factors, setup.problem, theta, began)
            return group.on_root(lambda: as_training_error(solve))
        except SciMLParError as error:  # a training of days is not to be lost for this
            why = f"its linearization failed: {one_line(error)}"
            return Linearized.not_known(why, seconds=time.perf_counter() - began)

    def factors(self, number: int, theta: Array) -> Factors:
        """Return the factors at θ: [p], on the first rank (collective in the group)."""
        group = self._ready.group
        here = together(group, lambda: self._here(number, theta))
        parts: list[Factors] = group.allgather_object(here)
        if group.rank or len(parts) == 1:
            return parts[0]
        physics, known, unknown = (stacked_triangle([getattr(p, n) for p in parts]) for n in KINDS)
        counts = sum(p.rows[0] for p in parts), sum(p.rows[1] for p in parts)
        return Factors(physics, known, unknown, counts)

    def _here(self, number: int, theta: Array) -> Factors:
        setup = next(each for each in self._stack.setups if each.number == number)
        given = self._feed(setup.problem, setup.feed).whole(0)
        batch = tf.nest.map_structure(lambda each: tf.cast(each, _DTYPE), given)
        # In single precision, what nothing determines looks as if rounding determined it.
        at = tf.constant(theta.astype(_DTYPE))
        if not self._prepared:
            self._objective.prepare_jacobian(at, batch)
            self._prepared = True
        residuals, jacobians = self._objective.jacobian(at, batch)
        rows = [
            np.column_stack([j.numpy().T, r.numpy()])
            for r, j in zip(residuals, jacobians, strict=True)
        ]
        weights = [math.sqrt(float(np.ravel(each.weights)[0])) for each in batch]  # √(w/N)
        return factors_of(setup.problem, rows, weights)

    def _feed(self, problem: Problem, trained: RankFeed) -> RankFeed:
        """Return points that determine all parameters, where the domain can be sampled."""
        ready, p = self._ready, self._stack.layout.size
        wanted = Points.of(ready.points)
        if math.isnan(problem.domain.volume) or isinstance(wanted.interior, np.ndarray):
            return trained
        equations = self._stack.setups[0].equations
        interior = max(trained.totals[0], math.ceil(_ROWS_PER_PARAMETER * p / equations))
        more = {"interior": interior + 1, "method": "sobol", "seed": _SEED + ready.settings.seed}
        return make_feed(
            problem,
            wanted.with_changes(**more, batch_size={}, resample_every=None, adapt=None),
            rank=ready.group.rank,
            size=ready.group.size,
            seed=ready.settings.seed,
            dtype=ready.settings.precision,
        )
