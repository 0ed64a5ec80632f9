"""A field in windows, and how large its residual and its error are in each of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.world import World
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.error_by_window import ErrorByWindow
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.outcome.together import Ended
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.gauss_newton import WindowedGaussNewton
from sciml_par.training.windows.points import with_points_of_windows
from sciml_par.training.windows.solved import Found

Array = npt.NDArray[Any]

_SEEN = 200
"""Unseen points of each window."""
_OF_ERROR = 32
_SEED = 977


@dataclass(frozen=True)
class SolvedInWindows:
    """A field in windows, with its loss at unseen points and the share of each window, [K]."""

    given: Arguments
    stack: Stack
    found: Found
    loss: float
    residual: Array

    @property
    def partition(self) -> Any:
        """The partition of the domain."""
        model: Any = self.stack.network.model
        return model.partition

    def __call__(self, x: Array) -> Array:
        """Return u at x: [n, d] -> [n, m] (local)."""
        return self.solution()(x)

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(u, x) at x: [n, d] -> [n, k] (local)."""
        return self.solution().quantity(f, x)

    @property
    def end(self) -> Array:
        """The parameters, [p]."""
        return self.found.theta

    @property
    def last(self) -> LastStep:
        """The last step of Gauss–Newton."""
        return self.found.last

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u, by default with the parameters that solve for it (local)."""
        at = self.found.theta if theta is None else theta
        return Solution(self.stack.problem, self.stack.network, self.stack.layout, at)


def solve_in_windows(
    problem: Problem,
    windows: Any,
    points: Points,
    *,
    seed: int,
    precision: str,
    world: World,
    start: Callable[[Array], Array] | None = None,
    ended: Ended | None = None,
) -> SolvedInWindows:
    """Solve for a network in windows, and see its residual at other points (collective).

    start : u at x: [n, d] -> [n, m], of which each window begins with the value in its middle.
    """
    began = time.perf_counter()
    given = Arguments(
        problem=problem,
        network=windows,
        points=points,
        optimizer=LeastSquares(),
        steps=LeastSquares.default_steps,
        keep="last",
        seed=seed,
        precision=precision,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with_boundary = with_points_of_windows(given)
        (stack,) = prepare(with_boundary, world).stacks
    ranks, method = world.communicator, LeastSquares()
    solver = WindowedGaussNewton(stack, ranks, method, ended=ended)
    batch = stack.setups[0].feed.whole(0)
    theta = stack.parameters[0].copy()
    if start is not None and problem.ansatz is None:
        layout, partition = stack.layout, stack.network.model.partition
        _, bias = layout.linear or ()
        first, middles = sum(layout.sizes[:bias]), np.mean(partition.boxes(), axis=0)
        low, high = np.min(partition.boxes()[0], axis=0), np.max(partition.boxes()[1], axis=0)
        # The network may see scaled coordinates.
        middles = problem.domain.lower + (middles - low) / (high - low) * problem.domain.extent
        theta[first : first + layout.sizes[bias]] = start(middles).ravel()
    theta, terms, last = solver.solve(theta, batch, LeastSquares.default_steps)
    found = Found(theta, terms, last, time.perf_counter() - began)
    model: Any = stack.network.model
    unseen = Points.of(with_boundary.points).with_changes(
        interior=_SEEN * model.partition.count, seed=_SEED + seed
    )
    other = make_feed(
        stack.problem,
        unseen,
        rank=ranks.rank,
        size=ranks.size,
        seed=seed,
        dtype=precision,
        scattered=True,
    )
    squares = solver.squares(theta, other.whole(0))
    loss, residual = shares_of(squares, model.partition, world)
    return SolvedInWindows(given, stack, found, loss, residual)


def shares_of(
    squares: Iterable[tuple[Array, Array]], partition: Partition, world: World
) -> tuple[float, Array]:
    """Return the sum of squares [n] at points [n, d], and the share of each window (collective)."""
    lower, upper = partition.boxes()
    found = np.zeros(partition.count)
    used = np.setdiff1d(np.arange(partition.count), partition.unused)
    margin = 1e-9 * (upper - lower)
    for x, r in squares:
        left = np.ones(len(x), bool)
        for k in used:
            near = (x >= lower[k] - margin[k]) & (x <= upper[k] + margin[k])
            inside = left & near.all(axis=1)
            found[k] += r[inside].sum()
            left &= ~inside
    total = summed(found, world.communicator)
    return float(total.sum()), total / max(total.sum(), np.finfo(float).tiny)


def error_by_window(
    domain: Domain,
    boxes: tuple[Array, Array],
    residual: Array,
    u: Callable[[Array], Array],
    e: Callable[[Array], Array] | None,
) -> ErrorByWindow:
    """Return the error e(x) of u(x) by parts (local)."""
    lower, upper = boxes
    parts = InBoxes.of(domain, lower, upper)
    used = parts.used()
    counts = [_OF_ERROR] * len(used.shares)
    points = used.in_each(counts, np.random.default_rng(0))
    error = np.full(len(lower), np.nan)
    if e is not None:
        volumes = used.shares * np.prod(used.upper - used.lower, axis=1)
        of_u, of_e = (_means(f, points) for f in (u, e))
        seen = np.isfinite(of_u)
        size = volumes[seen] @ of_u[seen] / volumes[seen].sum()
        if size > 0:
            error[parts.shares > 0] = np.sqrt(of_e / size)
    return ErrorByWindow(lower, upper, error, residual)


def _means(f: Callable[[Array], Array], points: Sequence[Array]) -> Array:
    """Return the mean of |f|² over the points of each part, NaN if there are none."""
    rows = np.repeat(np.arange(len(points)), [len(each) for each in points])
    squares = np.nansum(f(np.concatenate(points)) ** 2, axis=1)
    sums, counts = (np.bincount(rows, w, len(points)) for w in (squares, None))
    return np.asarray(np.divide(sums, counts, where=counts > 0, out=np.full(len(points), np.nan)))
