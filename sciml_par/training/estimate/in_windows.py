"""The error of a solution in windows, by richer features in the same windows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.world import World
from sciml_par.problems.domains.domain import Domain
from sciml_par.results.error_estimate import ErrorByWindow, ErrorEstimate
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.members.stack import MemberSetup, Stack
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.outcome.together import Ended, check_ended
from sciml_par.training.points.feed import Batch
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import prepare
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.gauss_newton import WindowedGaussNewton
from sciml_par.training.windows.points import with_points_of_windows

Array = npt.NDArray[Any]

_FEW = 150
_RICHER, _RICHER_THAN_FEW = 1.5, 2.0
"""By which there are more features; their scale is larger by the root of it."""
_POINTS = 3.0
"""For each weight of the output layers."""
_SEED = 977
_OF_ERROR = 32
"""Points of each window at which the error is seen."""


@dataclass(frozen=True)
class InWindows:
    """A solution u and one with a correction u + e, as `Solved` has them for one network.

    residual : the share of each window in the loss of u at unseen points, [K].
    """

    base: Any
    stack: Stack
    start: Array
    end: Array
    last: LastStep
    before: float
    after: float
    of_zero: float
    residual: Array

    def with_windows(self, error: ErrorEstimate) -> ErrorEstimate:
        """Return an error with that of each window."""
        domain, boxes = self.stack.problem.domain, self.base.partition.boxes()
        u = self.solution(self.start)
        found = error_by_window(domain, boxes, self.residual, u, error.evaluate)
        return replace(error, by_window=found)

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u, by default with the correction (local)."""
        network, layout = self.stack.network, self.stack.layout
        base, apply = self.base, network.apply

        def both(own: Any, z: Any) -> Any:
            return base(z) + apply(own, z)

        network = replace(network, apply=both, jet=None)
        return Solution(self.stack.problem, network, layout, self.end if theta is None else theta)


def corrected_in_windows(
    setup: MemberSetup,
    kept: Array,
    points: Any,
    *,
    seed: int,
    world: World,
    ended: Ended | None = None,
) -> InWindows:
    """Return the correction of a network in windows of all ranks (collective).

    With richer features in the same windows, and at other points, the linearized equation
    L′(u) e = −r(u) is solved by `LeastSquares`.
    """
    model = setup.network.model
    inner = model.inner_config
    factor = _RICHER_THAN_FEW if inner["features"] < _FEW else _RICHER
    richer = {**inner, "features": int(factor * inner["features"])}
    given = inner["scale"]
    richer["scale"] = None if given is None else factor**0.5 * given
    check_ended(ended, world.communicator)
    stack, batch, unseen = _prepared(setup, richer, points, seed=seed, world=world)
    solver = WindowedGaussNewton(stack, world.communicator, LeastSquares(), base=model)
    check_ended(ended, world.communicator)
    start = stack.parameters[0].copy()
    known = kept[setup.size_of_own :]  # there are no unknown functions
    if len(known):
        start[-len(known) :] = known
    end, _, last = solver.solve(start, batch, 1)
    before, after = (float(solver.terms(theta, unseen).sum()) for theta in (start, end))
    alone = WindowedGaussNewton(stack, world.communicator, LeastSquares())
    of_zero = float(alone.terms(start, unseen).sum())
    _, residual = shares_of(solver.squares(start, unseen), model.partition, world)
    return InWindows(model, stack, start, end, last, before, after, of_zero, residual)


def _prepared(
    setup: MemberSetup, richer: dict[str, Any], trained: Any, *, seed: int, world: World
) -> tuple[Stack, Batch, Batch]:
    """Return a network for a correction, its points, and points that it does not see."""
    networks: Any = import_module("sciml_par.networks")
    model = setup.network.model
    kept = {n: v for n, v in richer.items() if n in ("features", "scale", "activation")}
    network = networks.Windows(
        partial(networks.RandomFeatures, **kept),
        parts=model.partition.parts,
        overlap=model.partition.overlap,
        splits=model.partition.splits,
        unused=model.partition.unused,
        enriched=model.partition.enriched,
    )
    weights = model.partition.richness.sum() * (richer["features"] + 1) * model.output_size
    number = int(_POINTS * weights / setup.equations)

    def at(drawn: int) -> Any:
        arguments = Arguments(
            problem=setup.problem,
            network=network,
            points=_more_points(Points.of(trained), number, setup.problem.domain.dimension, drawn),
            optimizer=LeastSquares(),
            steps=1,
            keep="last",
            seed=_SEED + seed,
            precision="float64",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the training itself has said what there is to say
            return prepare(with_points_of_windows(arguments), world).stacks[0]

    stack, other = at(_SEED + seed), at(_SEED + seed + 1)
    return stack, stack.setups[0].feed.whole(0), other.setups[0].feed.whole(0)


def _more_points(trained: Points, number: int, d: int, seed: int) -> Points:
    """Return other points than those of the training, and more on the boundary as well."""
    if not isinstance(trained.interior, int) or not isinstance(trained.boundary, int | None):
        return Points(number, method="sobol", seed=seed)
    more = max(number / trained.interior, 1.0)
    boundary = trained.boundary and math.ceil(trained.boundary * more ** ((d - 1) / d))
    return Points(max(number, trained.interior), boundary=boundary, method="sobol", seed=seed)


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
