"""The loss at points that were not trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.objective import field_of
from sciml_par.training.members.stack import MemberSetup, Stack
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points

FloatArray = npt.NDArray[np.float64]
Kept = Sequence[npt.NDArray[Any]]

_LEAST_POINTS, _MOST_POINTS = 256, 10_000
_MOST_OF_ALL_MEMBERS = 2**18
_SEED = 811
_FEW = 8  # members, for which tracing takes longer than computing without a trace


@dataclass(frozen=True)
class AtOtherPoints:
    """The losses of a member at points that were not trained on; see `Member`."""

    validation_loss: float
    zero_loss: float
    misfits: dict[str, float]


def at_other_points(
    stacks: Sequence[Stack],
    kept: Sequence[Kept],
    points: Any,
    *,
    settings: Settings,
    group: Communicator,
) -> list[list[AtOtherPoints]]:
    """Return L at other points for the members of each stack (collective in the group).

    In the interior there are as many as training points, but 256 to 10,000, of Sobol's sequence.
    If interior points were given, the others lie midway between each of them and the nearest one.
    Points that were given for conditions stay the same.

    Parameters
    ----------
    kept : of each stack, θ of its members, [p] each.
    points : as `train` was given them.
    group : the ranks that trained the members.
    """
    here = [
        _sums_of_stack(stack, weights, points, settings, group)
        for stack, weights in zip(stacks, kept, strict=True)
    ]
    everyone = group.allgather_object(here)
    sums = [np.sum(each, axis=0) for each in zip(*everyone, strict=True)]
    return [
        [
            judged([term.name for term in setup.problem.terms], each)
            for setup, each in zip(stack.setups, its, strict=True)
        ]
        for stack, its in zip(stacks, sums, strict=True)
    ]


def judged(names: Sequence[str], sums: FloatArray) -> AtOtherPoints:
    """Return what sums over other points tell of the terms with these names (local).

    sums : the squares of each term, those of a network of zeros, the squares of what conditions are
        about, the weights of points in all, and how many points there are inside: [5, T].
    """
    squares, of_zero, sizes, weights, counts = sums
    loss, zero_loss = (x if math.isfinite(x) else math.nan for x in (squares.sum(), of_zero.sum()))
    with np.errstate(divide="ignore", invalid="ignore"):
        # A field of zeros misses a condition by the size of what the condition gives.
        ratios = np.sqrt(squares / np.fmax(of_zero, weights * sizes / counts))
    known = np.isfinite(sizes) & np.isfinite(ratios)
    misfits = {n: float(r) for n, r, k in zip(names, ratios, known, strict=True) if k}
    return AtOtherPoints(float(loss), float(zero_loss), misfits)


def _sums_of_stack(
    stack: Stack, kept: Kept, points: Any, settings: Settings, group: Communicator
) -> FloatArray:
    """Return the sums over this rank's points for each member and term, [M, 5, T]; or NaN.

    They are the squares with the member's weights and with N = 0, those of `Condition.quantity` in
    the interior, the weights of the squares, and the number of interior points.
    """
    field = partial(field_of, stack.problem, stack.network)
    member = MemberObjective(field, stack.terms, layout=stack.layout, jacobians=())
    try:
        batches = [feed.whole(0) for feed in _other_points(stack, points, settings, group)]
        thetas = [tf.constant(each) for each in kept]
        residuals: Any = member.residuals
        if len(thetas) > _FEW:
            traced = tf.function(residuals, autograph=False)
            residuals = traced.get_concrete_function(thetas[0], batches[0])
        found = []
        for theta, batch in zip(thetas, batches, strict=True):
            x = batch[0].arrays[0]
            squares = [_squares(residuals(at, batch)) for at in (theta, _zeroed(stack, theta, x))]
            sizes = sizes_of_conditions(stack.problem, field(stack.layout.unflatten(theta)), x)
            weights = [np.sum(np.broadcast_to(w, len(a[0])), dtype=np.float64) for w, a in batch]
            found.append([*squares, sizes, weights, [len(x)] * len(weights)])
        return np.array(found, np.float64)
    except Exception:  # TensorFlow and the user's own functions raise all kinds
        return np.full((len(kept), 5, len(stack.terms)), math.nan)


def _squares(residuals: Sequence[Any]) -> list[float]:
    return [float(np.square(r.numpy(), dtype=np.float64).sum()) for r in residuals]


def _zeroed(stack: Stack, theta: Any, x: Any) -> Any:
    """Return θ with a network N = 0, or NaN if weights of zero do not make that."""
    own = stack.network.own_variables
    count = sum(stack.layout.sizes[: len(own)])
    zeros = stack.network.apply([tf.zeros(v.shape, theta.dtype) for v in own], x)
    blank = math.nan if np.any(zeros) else 0.0
    return tf.concat([tf.fill([count], tf.constant(blank, theta.dtype)), theta[count:]], axis=0)


def sizes_of_conditions(problem: Problem, u: Field, x: Any) -> list[float]:
    """Return the squares at x of each condition's quantity; NaN of other terms (local)."""
    asked = [each.quantity(u, x, problem.domain) for each in problem.conditions]
    of_conditions = [math.nan if q is None else _squares([q])[0] for q in asked]
    return [math.nan] * len(problem.residuals) + of_conditions


def _other_points(
    stack: Stack, points: Any, settings: Settings, group: Communicator
) -> list[RankFeed]:
    """Return the other points of each member; members of one problem share them."""
    made: dict[int, RankFeed] = {}
    for setup in stack.setups:
        problem = setup.problem
        if id(problem) not in made:
            wanted = _wanted(setup, points, len(stack.setups))
            made[id(problem)] = make_feed(
                problem,
                wanted.with_changes(seed=_SEED + settings.seed),
                rank=group.rank,
                size=group.size,
                seed=settings.seed,
                dtype=settings.precision,
            )
    return [made[id(setup.problem)] for setup in stack.setups]


def _wanted(setup: MemberSetup, points: Any, members: int) -> Points:
    domain = setup.problem.domain
    if math.isnan(domain.volume) or not setup.problem.residuals:
        raise InputError("there are only the points of the training")
    wanted, trained = Points.of(points), setup.feed.totals[0]
    given = wanted.interior
    if isinstance(given, np.ndarray):
        from scipy.spatial import KDTree

        others = np.unique(given, axis=0)
        _, nearest = KDTree(others).query(others, k=2)
        midpoints = np.unique((others + others[nearest[:, 1]]) / 2, axis=0)[:_MOST_POINTS]
        interior: Any = midpoints[domain.admits(midpoints)]
    else:
        most = max(_LEAST_POINTS, min(_MOST_POINTS, _MOST_OF_ALL_MEMBERS // members))
        interior = min(max(trained, _LEAST_POINTS), most)
        # Values that a residual holds for the training points do not fit another number of points.
        interior += interior == trained
    return wanted.with_changes(
        interior=interior, method="sobol", batch_size={}, resample_every=None, adapt=None
    )
