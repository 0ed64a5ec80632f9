"""Networks that are solved for side by side on one problem, and judged at unseen points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble
from sciml_par.training.arguments.settings import LAST
from sciml_par.training.estimate.candidates import Candidates
from sciml_par.training.estimate.gauss_newton import GaussNewton
from sciml_par.training.members.stack import MemberSetup, Stack
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.outcome.together import Ended, together
from sciml_par.training.outcome.validation import at_other_points
from sciml_par.training.points.feed import Batch
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import Preparation, prepare

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]

_SEED, _CUTOFF = 613, 1e-12
_MOST_OPERATIONS = 1e10


@dataclass(frozen=True)
class _End:
    """What the rank of a network knows after its steps from parameters `start` to `end`, [p].

    before, after, of_zero : the loss at unseen points with them, and of a network of zeros.
    """

    start: Array
    end: Array
    before: float
    after: float
    of_zero: float
    steps: int
    last: LastStep


@dataclass(frozen=True)
class Solved(_End):
    """One of the networks, solved for."""

    number: int
    setup: MemberSetup
    stack: Stack
    method: GaussNewton
    batch: Batch

    def assign(self) -> None:
        """Give the model the parameters after the solution (local)."""
        values = self.stack.layout.unflatten(tf.constant(self.end))
        for variable, value in zip(self.setup.network.trainable_variables, values, strict=False):
            variable.assign(value)

    def network_values(self, x: Array) -> Array:
        """Return the values of the network itself at x: [n, d] -> [n, m] (local)."""
        network, theta = self.stack.network, self.stack.layout.unflatten(tf.constant(self.end))
        own, *_ = network.parts(theta)
        return np.asarray(network.apply(own, tf.constant(x, self.end.dtype)).numpy(), np.float64)

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u, by default after the solution (local)."""
        setup, at = self.setup, self.end if theta is None else theta
        return Solution(setup.problem, setup.network, self.stack.layout, at)


def solve_side_by_side(
    problem: Problem,
    candidates: Candidates,
    *,
    steps: int,
    seed: int,
    precision: str,
    world: World,
    known: Array | None = None,
    like: Solved | None = None,
    start: Function | None = None,
    ended: Ended | None = None,
) -> list[Solved]:
    """Solve for all candidates by `LeastSquares` on all ranks together (collective).

    known : the parameters of unknown functions and unknowns to begin with, [q].
    like, start : a solution, or u at x: [n, d] -> [n, m], to begin with.
    """
    everyone, points, count = world.communicator, candidates.points, len(candidates.kinds)
    # A candidate alone on its rank has the digits that it has on one rank. The ranks share its rows
    # where there are fewer than ranks and QR factors (5 q³ operations) take longer than a trace.
    q = candidates.features * problem.outputs
    undivided = everyone.size == 1 or count >= everyone.size or 5.0 * q**3 <= _MOST_OPERATIONS
    arguments = Arguments(
        problem=problem,
        network=candidates,
        points=points,
        mode=Ensemble(members=count, ranks_per_member=everyone.size, seeds=range(count)),
        optimizer=LeastSquares(),
        steps=steps,
        keep=LAST,
        seed=seed,
        precision=precision,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training itself has said what there is to say
        ready = prepare(arguments, world, undivided=undivided)
        if like is not None:
            known = like.end[like.setup.size_of_own :]
            everyone.attempt(lambda: _fit(ready.stacks, like.network_values, points))
        elif start is not None:
            everyone.attempt(lambda: _fit(ready.stacks, start, points))
        if known is not None and len(known):
            for stack in ready.stacks:
                stack.parameters[:, -len(known) :] = known
        begun = None if like is not None or candidates.base is not None else start is not None
        methods = [GaussNewton(stack, ready.group) for stack in ready.stacks]
        ends_of = partial(_ends, steps=steps, points=points, begun=begun, ended=ended, ready=ready)
        ends = iter(_ends_on_all_ranks(ready, methods, ends_of, everyone))
    found = [
        Solved(
            **vars(next(ends)),
            number=setup.number,
            setup=setup,
            stack=stack,
            method=method,
            batch=setup.feed.whole(0),
        )
        for stack, method in zip(ready.stacks, methods, strict=True)
        for setup in stack.setups
    ]
    return sorted(found, key=lambda solved: solved.number)


def _ends_on_all_ranks(
    ready: Preparation,
    methods: Sequence[GaussNewton],
    ends_of: Callable[[Stack, GaussNewton, list[int]], list[_End]],
    everyone: Communicator,
) -> list[_End]:
    """Solve for the candidates of all stacks, in their order, by `ends_of` (collective).

    Ranks that do not share points solve for a part of the candidates each.
    """
    members = [(stack, j) for stack in ready.stacks for j in range(len(stack.setups))]
    if ready.group.size < everyone.size:
        first, end = (len(members) * (everyone.rank + k) // everyone.size for k in (0, 1))
        members = members[first:end]

    def solve_share() -> list[_End]:
        found = []
        for stack, method in zip(ready.stacks, methods, strict=True):
            numbers = [j for each, j in members if each is stack]
            if numbers:
                found += ends_of(stack, method, numbers)
        return found

    if ready.group.size == everyone.size:
        return solve_share()
    parts: list[list[_End]] = everyone.allgather_object(together(everyone, solve_share))
    return [end for part in parts for end in part]


def _ends(
    stack: Stack,
    method: GaussNewton,
    numbers: Sequence[int],
    *,
    steps: int,
    points: Points,
    begun: bool | None,
    ended: Ended | None,
    ready: Preparation,
) -> list[_End]:
    """Solve for some networks of a stack, which share all that is traced (collective).

    begun : whether u has a start; None of those that begin with another solution.
    """
    batch = stack.setups[0].feed.whole(0)
    starts = [stack.parameters[j] for j in numbers]
    if begun is not None:
        starts = [method.begin(theta, batch, steps, given=begun) for theta in starts]
    made = [method.solve(theta, batch, steps, ended=ended) for theta in starts]
    part = replace(stack, setups=tuple(stack.setups[j] for j in numbers))
    before, after = (
        at_other_points([part], [thetas], points, settings=ready.settings, group=ready.group)[0]
        for thetas in (starts, [theta for theta, *_ in made])
    )
    return [
        _End(
            start,
            end,
            at_start.validation_loss,
            at_end.validation_loss,
            zero if math.isfinite(zero := at_end.zero_loss) else at_start.validation_loss,
            count,
            last,
        )
        for start, (end, count, last), at_start, at_end in zip(
            starts, made, before, after, strict=True
        )
    ]


def _fit(stacks: Sequence[Stack], function: Function, points: Points) -> None:
    """Let the features of all stacks begin with the values of a function of x (local)."""
    from scipy.linalg import lstsq

    domain = stacks[0].problem.domain
    x = domain.sample(int(points.interior), seed=_SEED, method="sobol")
    values = function(x)
    members = [each for s in stacks for each in zip(s.setups, s.parameters, strict=True)]
    for setup, theta in members:
        columns = columns_of(setup.network.model, x)
        with threads(1):
            fitted = lstsq(columns, values, cond=_CUTOFF, lapack_driver="gelsy")[0].ravel()
        first = sum(np.asarray(each).size for each in setup.network.own_variables[:2])
        theta[first : first + fitted.size] = fitted


def columns_of(model: Any, x: Array) -> Array:
    """Return the features of a candidate at x, and ones: [n, d] -> [n, features + 1] (local)."""
    features = getattr(model, "correction", model)
    kernel, bias = (variable.value for variable in features.trainable_variables[:2])
    count = int(bias.shape[0])
    single = [kernel, bias, tf.eye(count, dtype=kernel.dtype), tf.zeros([count], kernel.dtype)]
    found = features.apply(single, tf.constant(x, kernel.dtype)).numpy()
    return np.column_stack([found, np.ones(len(x))]).astype(np.float64)


def in_order(solved: list[Solved]) -> list[Solved]:
    """Return them by their losses at unseen points, the least first."""
    return sorted(solved, key=lambda each: each.after if np.isfinite(each.after) else np.inf)
