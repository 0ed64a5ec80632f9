"""The error and the residual of a network in windows, by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.partition import Partition
from sciml_par.results.error_estimate import ErrorByWindow
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.points.in_boxes import InBoxes

Array = npt.NDArray[Any]

_POINTS, _OF_ERROR = 32, 32
"""Points of each window at which the residual and the error are seen."""


def error_by_window(
    u: Solution, partition: Partition, e: Callable[[Array], Array] | None
) -> ErrorByWindow:
    """Return the error e(x) of u(x) and its residual by parts (local)."""
    lower, upper = partition.boxes()
    parts = InBoxes.of(u.problem.domain, lower, upper)
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
    return ErrorByWindow(lower, upper, error, _shares(u, partition))


def _means(f: Callable[[Array], Array], points: Sequence[Array]) -> Array:
    """Return the mean of |f|² over the points of each part, NaN if there are none."""
    rows = np.repeat(np.arange(len(points)), [len(each) for each in points])
    squares = np.nansum(f(np.concatenate(points)) ** 2, axis=1)
    sums, counts = (np.bincount(rows, w, len(points)) for w in (squares, None))
    return np.asarray(np.divide(sums, counts, where=counts > 0, out=np.full(len(points), np.nan)))


def _shares(u: Solution, partition: Partition) -> Array:
    """Return the share of each window in the loss at points that were not trained on, [K]."""
    lower, upper = partition.boxes()
    found, margin = np.zeros(partition.count), 1e-9 * (upper - lower)
    used = np.setdiff1d(np.arange(partition.count), partition.unused)
    for x, r in _squares(u, _POINTS * len(used)):
        left = np.ones(len(x), bool)
        for k in used:
            near = (x >= lower[k] - margin[k]) & (x <= upper[k] + margin[k])
            inside = left & near.all(axis=1)
            found[k] += r[inside].sum()
            left &= ~inside
    return found / max(found.sum(), np.finfo(float).tiny)


def _squares(u: Solution, count: int) -> Iterator[tuple[Array, Array]]:
    """Yield points of each term, [n, d], and their shares in the loss, [n]."""
    problem, dtype = u.problem, u.theta.dtype
    for term in problem.terms:
        arrays = [tf.constant(each, dtype) for each in term.points(count)]
        r = term.function(u.field, *arrays).numpy()
        if len(r) == len(arrays[0]):  # not of a sum over points
            yield arrays[0].numpy(), term.weight * np.mean(r**2, axis=1) / len(r)
