"""A field in windows, and how large its residual and its error are in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.world import World
from sciml_par.problems.domains.domain import Domain
from sciml_par.results.error_estimate import ErrorByWindow
from sciml_par.training.points.in_boxes import InBoxes
from sciml_par.training.windows.exchange import summed

Array = npt.NDArray[Any]

_SEEN = 200
"""Unseen points of each window."""
_OF_ERROR = 32
_SEED = 977


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
