"""Networks that are solved for side by side on one problem, and judged at unseen points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import TrainingError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import Ensemble
from sciml_par.training.arguments.settings import LAST, Settings
from sciml_par.training.estimate.candidates import Candidates
from sciml_par.training.estimate.gauss_newton import GaussNewton
from sciml_par.training.members.stack import MemberSetup, Stack
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.outcome.validation import at_other_points
from sciml_par.training.points.feed import Batch
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]
Ended = Callable[[], str | None]

_SEED, _CUTOFF = 613, 1e-12


@dataclass(frozen=True)
class Solved:
    """One of the networks, solved for.

    Attributes
    ----------
    number : that of its kind.
    setup, stack : its member of the training, and the computation that it was part of.
    method, batch : what solved for it, and the points on this rank.
    start, end : its parameters before and after, [p].
    before, after : the loss at unseen points with them; NaN where there are none.
    of_zero : the loss at unseen points of a network of zeros, or at the start if it is not finite.
    steps, last : how many were made, and the last one.
    """

    number: int
    setup: MemberSetup
    stack: Stack
    method: GaussNewton
    batch: Batch
    start: Array
    end: Array
    before: float
    after: float
    of_zero: float
    steps: int
    last: LastStep

    @property
    def size_of_own(self) -> int:
        """How many of its parameters are those of the network itself."""
        return sum(math.prod(v.shape) for v in self.setup.network.own_variables)

    def assign(self) -> None:
        """Give the model the parameters after the solution (local)."""
        values = self.stack.layout.unflatten(tf.constant(self.end))
        for variable, value in zip(self.setup.network.trainable_variables, values, strict=False):
            variable.assign(value)

    def network_values(self, x: Array) -> Array:
        """Return the values of the network itself at x: [n, d] -> [n, m] (local)."""
        return _own_values(self.stack, self.end, x)

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

    Parameters
    ----------
    known : the parameters behind those of the network itself to begin with, of unknown functions
        and unknowns; by default their own.
    like : a solution with other features to begin with. From zeros, Gauss–Newton steps may end in
        another minimum, or take many steps more.
    start : u at x: [n, d] -> [n, m], to begin with where there is no other solution.
    ended : returns the signal by which this rank is asked to end, if any.

    Raises
    ------
    TrainingError
        A rank was asked to end; on all ranks.
    """
    everyone, points, count = world.communicator, candidates.points, len(candidates.kinds)
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
        ready = prepare(arguments, world)
        if like is not None:
            known = like.end[like.size_of_own :]
            everyone.attempt(lambda: _fit(ready.stacks, like.network_values, points))
        elif start is not None:
            everyone.attempt(lambda: _fit(ready.stacks, start, points))
        if known is not None and len(known):
            for stack in ready.stacks:
                stack.parameters[:, -len(known) :] = known
        begun = None if like is not None or candidates.base is not None else start is not None
        found = [
            each
            for stack in ready.stacks
            for each in _solved(stack, steps, points, ready.settings, everyone, begun, ended)
        ]
    return sorted(found, key=lambda solved: solved.number)


def _solved(
    stack: Stack,
    steps: int,
    points: Points,
    settings: Settings,
    everyone: Communicator,
    begun: bool | None,
    ended: Ended | None,
) -> list[Solved]:
    """Solve for the networks of a stack, which share all that is traced.

    begun : whether u has a start; None of those that begin with another solution.
    """
    method, feed = GaussNewton(stack, everyone), stack.setups[0].feed
    starts = list(stack.parameters)
    if begun is not None:
        starts = [method.begin(theta, feed.whole(0), steps, given=begun) for theta in starts]
    made = []
    for theta in starts:
        _check_ended(ended, everyone)
        made.append(method.solve(theta, feed.whole(0), steps))
    ends = [theta for theta, *_ in made]
    before, after = (
        at_other_points([stack], [kept], points, settings=settings, group=everyone)[0]
        for kept in (starts, ends)
    )
    return [
        Solved(
            setup.number,
            setup,
            stack,
            method,
            setup.feed.whole(0),
            starts[j],
            ends[j],
            before[j].validation_loss,
            after[j].validation_loss,
            _or(after[j].zero_loss, before[j].validation_loss),
            *made[j][1:],
        )
        for j, setup in enumerate(stack.setups)
    ]


def _check_ended(ended: Ended | None, everyone: Communicator) -> None:
    """Raise on all ranks if one of them is asked to end (collective)."""
    asked = everyone.allgather_object(ended()) if ended is not None else []
    for signal in filter(None, asked):
        raise TrainingError(f"{signal} has ended it.")


def _or(value: float, other: float) -> float:
    return value if math.isfinite(value) else other


def _own_values(stack: Stack, theta: Array, x: Array) -> Array:
    own, *_ = stack.network.parts(stack.layout.unflatten(tf.constant(theta)))
    return np.asarray(stack.network.apply(own, tf.constant(x, theta.dtype)).numpy(), np.float64)


def _fit(stacks: Sequence[Stack], function: Function, points: Points) -> None:
    """Let the features of all stacks begin with the values of a function of x (local)."""
    from scipy.linalg import lstsq

    domain = stacks[0].problem.domain
    x = domain.sample(int(points.interior), seed=_SEED, method="sobol")
    values = function(x)
    members = [each for s in stacks for each in zip(s.setups, s.parameters, strict=True)]
    for setup, theta in members:
        columns = columns_of(setup.network.model, x)
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


def best_of(solved: list[Solved]) -> Solved:
    """Return the one with the least loss at unseen points."""
    return in_order(solved)[0]
