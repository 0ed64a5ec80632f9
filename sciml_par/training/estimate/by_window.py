"""How large the residual and the error of a field in windows are in each of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.parallel.groups.world import World
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.error_by_window import ErrorByWindow
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.points import with_points_of_windows
from sciml_par.training.windows.rows import RowsOfWindows

Array = npt.NDArray[Any]

_POINTS = 100
"""At which the residual is seen in each window."""
_OF_ERROR = 32


def residual_by_window(
    problem: Problem, windows: Any, model: Any, *, seed: int, precision: str, world: World
) -> Array:
    """Return the share of each part in the loss at unseen points, [K] (collective).

    windows : the `Windows` of the model.
    """
    networks: Any = import_module("sciml_par.networks")
    small = windows.with_inner(partial(networks.RandomFeatures, features=1, scale=1.0))
    lower, upper = windows.boxes(problem.domain.lower, problem.domain.upper)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = prepare(with_points_of_windows(_arguments(problem, small, len(lower), seed, precision)), world)
    (stack,) = ready.stacks
    rows = RowsOfWindows(stack, base=model)
    squares = rows.squares(np.zeros_like(stack.parameters[0]), stack.setups[0].feed.whole(0))
    return shares_of(squares, lower, upper, world)


def shares_of(
    squares: Iterable[tuple[Array, Array]], lower: Array, upper: Array, world: World
) -> Array:
    """Return the shares of boxes in the sum of squares [n] at points [n, d] (collective)."""
    found = np.zeros(len(lower))
    for x, r in squares:
        left = np.ones(len(x), bool)
        for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
            inside = left & ((x >= low) & (x <= high)).all(axis=1)
            found[k] += r[inside].sum()
            left &= ~inside
    total = summed(found, world.communicator)
    return total / max(total.sum(), np.finfo(float).tiny)


def by_window(
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


def _arguments(
    problem: Problem, network: Any, count: int, seed: int, precision: str
) -> Arguments:
    return Arguments(
        problem=problem,
        network=network,
        points=Points(_POINTS * count, method="sobol", seed=seed),
        points_per_rank=None,
        mode="data",
        optimizer=LeastSquares(),
        steps=1,
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
