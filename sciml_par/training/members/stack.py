"""Members of a rank that form one computation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.keras.network import Network
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.training.loss.function_networks import keys_of_functions
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.traced_terms import TracedTerms
from sciml_par.training.points.feed import Feed, RankFeed, StackedFeed


@dataclass(frozen=True)
class MemberSetup:
    """One member before its training.

    `seed` is that of its initial weights, `feed` has this rank's points, `rate_factor` multiplies
    the learning rate, and `unknowns` are the initial parameters of the problem's unknowns, [q].
    `sizes` are what residuals are divided by, by name.
    """

    number: int
    seed: int
    problem: Problem
    network: Network
    feed: RankFeed
    rate_factor: float
    traced: TracedTerms
    unknowns: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    sizes: Mapping[str, float] = field(default_factory=dict)

    @property
    def equations(self) -> int:
        """How many equations the residuals have at a point, at least 1."""
        return max(sum(self.traced.components[: len(self.problem.residuals)]), 1)

    @property
    def size_of_own(self) -> int:
        """How many of the parameters are those of the network itself."""
        return sum(math.prod(variable.shape) for variable in self.network.own_variables)


@dataclass(frozen=True)
class Stack:
    """Members that are one computation, each in its row.

    Attributes
    ----------
    setups : the M members.
    feed : their points.
    parameters : initial θ, [M, p].
    rate_factor : [M, 1].
    key : equal for stacks whose loops are the same program; None if that cannot be known.
    """

    setups: tuple[MemberSetup, ...]
    feed: Feed
    layout: ParameterLayout
    parameters: npt.NDArray[Any]
    rate_factor: npt.NDArray[Any]
    key: Hashable | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the members."""
        return tuple(each.number for each in self.setups)

    @property
    def problem(self) -> Problem:
        """The first member's problem; those of the others differ in data and weights at most."""
        return self.setups[0].problem

    @property
    def network(self) -> Network:
        """The first member's network; the others differ in their parameters only."""
        return self.setups[0].network

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss."""
        return self.problem.terms


def make_stacks(setups: Sequence[MemberSetup], precision: str) -> list[Stack]:
    """Divide a rank's members into as few stacks as there are different computations."""
    alike: dict[Hashable, list[MemberSetup]] = {}
    for setup in setups:
        key = _computation(setup)
        # A member that cannot be compared is a separate computation.
        alike.setdefault(("alone", setup.number) if key is None else key, []).append(setup)
    return [
        _stack(members, key if key[0] != "alone" else None, precision)  # type: ignore[index]
        for key, members in alike.items()
    ]


def divided(stack: Stack, count: int, precision: str) -> list[Stack]:
    """Divide a stack into `count` stacks of about equally many members, in their order."""
    members = len(stack.setups)
    ends = [members * k // count for k in range(count + 1)]
    return [_stack(stack.setups[first:end], stack.key, precision) for first, end in pairwise(ends)]


def _stack(setups: Sequence[MemberSetup], key: Hashable | None, precision: str) -> Stack:
    variables = [setup.network.trainable_variables for setup in setups]
    rows = [
        np.concatenate([*(np.asarray(v).ravel() for v in each), setup.unknowns])
        for each, setup in zip(variables, setups, strict=True)
    ]
    factors = [[setup.rate_factor] for setup in setups]  # in double precision
    feeds = [setup.feed for setup in setups]
    return Stack(
        setups=tuple(setups),
        feed=feeds[0] if len(feeds) == 1 else StackedFeed(feeds),
        layout=ParameterLayout.of(
            variables[0],
            setups[0].problem.unknowns,
            frozen=setups[0].network.frozen,
            linear=setups[0].network.linear,
        ),
        parameters=np.stack(rows).astype(precision),
        rate_factor=np.array(factors),
        key=key,
    )


def _computation(setup: MemberSetup) -> Hashable | None:
    """Return a key of what a member's loss computes; None if that is unknown."""
    problem = setup.problem
    scaled = problem.scaled_box or "not scaled", problem.output_ranges
    parts = [setup.network.key, setup.feed.shape_key, scaled, setup.traced.key]
    shapes = tuple(tuple(v.shape) for v in setup.network.trainable_variables)
    sought = tuple((name, unknown.key) for name, unknown in problem.unknowns.items())
    sought_functions = keys_of_functions(problem, setup.network)
    # Residuals may name coordinates and components.
    names = (problem.domain.names, problem.output_names)
    return None if None in parts else ("alike", names, shapes, sought, sought_functions, *parts)
