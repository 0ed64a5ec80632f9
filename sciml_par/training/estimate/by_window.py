"""A field in windows, and how large its residual and its error are in each of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.world import World
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.error_by_window import ErrorByWindow
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.evaluate import values_of
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.gauss_newton import WindowedGaussNewton
from sciml_par.training.windows.points import with_points_of_windows

Array = npt.NDArray[Any]

_SEEN = 200
"""Unseen points of each window."""
_OF_ERROR = 32
_SEED = 977


@dataclass(frozen=True)
class SolvedInWindows:
    """A field in windows that `LeastSquares` has solved for.

    Attributes
    ----------
    stack, theta : its network and parameters.
    loss : at unseen points.
    residual : the share of the part of each window in it, [K].
    """

    stack: Stack
    theta: Array
    loss: float
    residual: Array

    @property
    def partition(self) -> Any:
        """The partition of the domain."""
        model: Any = self.stack.network.model
        return model.partition

    def __call__(self, x: Array) -> Array:
        """Return u at x: [n, d] -> [n, m] (local)."""
        u = values_of(self.stack.problem, self.stack.network)
        parameters = self.stack.layout.unflatten(tf.constant(self.theta))
        return np.asarray(u(parameters, tf.constant(x, self.theta.dtype)).numpy(), np.float64)


def solve_in_windows(
    problem: Problem, windows: Any, points: Points, *, seed: int, precision: str, world: World
) -> SolvedInWindows:
    """Solve for a network in windows, and see its residual at other points (collective)."""
    given = with_points_of_windows(
        Arguments(
            problem=problem,
            network=windows,
            points=points,
            points_per_rank=None,
            mode="data",
            optimizer=LeastSquares(),
            steps=LeastSquares.default_steps,
            phases=None,
            stop=None,
            keep="last",
            weights=None,
            seed=seed,
            precision=precision,
            log_every=None,
            evaluation_points=None,
            evaluation_domain=None,
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (stack,) = prepare(given, world).stacks
    ranks, method = world.communicator, LeastSquares()
    solver = WindowedGaussNewton(stack, ranks, method)
    batch = stack.setups[0].feed.whole(0)
    theta, _ = solver.solve(stack.parameters[0], batch, LeastSquares.default_steps)
    model: Any = stack.network.model
    unseen = Points.of(given.points).with_changes(
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
    return SolvedInWindows(stack, theta, loss, residual)


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
    x = used.interior(_OF_ERROR * len(used.shares), np.random.default_rng(0))
    error = np.full(len(lower), np.nan)
    if e is not None:
        volumes = used.shares * np.prod(used.upper - used.lower, axis=1)
        of_u, of_e = (
            np.nansum(f(x) ** 2, axis=1).reshape(len(volumes), _OF_ERROR).mean(axis=1)
            for f in (u, e)
        )
        error[parts.shares > 0] = np.sqrt(of_e * volumes.sum() / (volumes @ of_u))
    return ErrorByWindow(lower, upper, error, residual)
