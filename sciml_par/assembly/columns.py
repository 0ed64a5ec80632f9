"""The jets of polynomials in windows at points, in closed form, window by window.

The same functions as `sciml_par.networks.Polynomials` computes in TensorFlow: an operation there
takes longer than the arithmetic of a window, and here all of a window stays in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.assembly.equations import Request
from sciml_par.networks.propagation.propagation import Propagated

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """The jets of columns of one window at points of a request: [Q, M, n] at rows [n]."""

    rows: Integers
    jets: Array


def jets_of(model: Any, c: Array, request: Request) -> Array:
    """Return the jets of u with coefficients c: [K, M, m] of a model, [Q, m, n] (local)."""
    found = np.zeros((request.size, c.shape[2], len(request.x)))
    for columns, own in zip(columns_at(model, request), c, strict=True):
        found[:, :, columns.rows] += np.matmul(own.T, columns.jets)
    return found


def columns_at(model: Any, request: Request) -> Iterator[Columns]:
    """Yield the jets of a model's columns, window by window (local)."""
    n, count = len(request.x), len(model.cells.kept)
    at = Propagated.at(tf.constant(request.x), request.second)
    numbers, weight, inside, scale = model.cells.at(at)
    place = numbers.numpy()
    jets = np.stack([_whole(part, len(place)) for part in weight.asked()])
    order = np.flatnonzero(jets[0] > 0)
    order = order[np.argsort(place[order], kind="stable")]
    rows = np.tile(np.arange(n), len(place) // max(n, 1))[order]
    z, jets = np.stack([each.numpy()[order] for each in inside]), jets[:, order]
    ends = np.searchsorted(place[order], np.arange(count + 1))
    for number, (a, b) in enumerate(pairwise(ends)):
        found = _products(model.exponents, z[:, a:b], scale[number], request.second)
        yield Columns(rows[a:b], _weighted(found, jets[:, a:b], request.second))


def _whole(part: Any, n: int) -> Array:
    return np.zeros(n) if part is None else np.broadcast_to(part.numpy()[0], n)


def _products(exponents: Integers, z: Array, scale: Array, second: Array) -> Array:
    """Return the jets of Π_i T_e(z_i), whose coordinates have the slopes `scale`: [Q, M, k]."""
    (count, d), k = exponents.shape, z.shape[1]
    tables = [
        _chebyshev(z[i], int(exponents[:, i].max())) * scale[i] ** np.arange(3)[:, None, None]
        for i in range(d)
    ]

    def product(orders: tuple[int, ...]) -> Array:
        found = np.ones((count, k))
        for i, order in enumerate(orders):
            if order or exponents[:, i].any():
                found *= tables[i][order][exponents[:, i]]
        return found

    unit = np.eye(d, dtype=int)
    jets = np.empty((1 + d + len(second), count, k))
    jets[0] = product((0,) * d)
    for i in range(d):
        jets[1 + i] = product(tuple(unit[i]))
    known: dict[tuple[int, int], Array] = {}
    for matrix, jet in zip(second, jets[1 + d :], strict=True):
        jet[...] = 0.0
        for i in range(d):
            for j in range(i, d):
                factor = matrix[i, i] if i == j else matrix[i, j] + matrix[j, i]
                if factor:
                    if (i, j) not in known:
                        known[i, j] = product(tuple(unit[i] + unit[j]))
                    jet += factor * known[i, j]
    return jets


def _weighted(jets: Array, weight: Array, second: Array) -> Array:
    """Return the jets of w φ: [Q, M, k] for jets of w: [Q, k]."""
    if np.all(weight[0] == 1) and not weight[1:].any():
        return jets
    value, d = jets[0].copy(), second.shape[1]
    first = jets[1 : 1 + d].copy()
    jets *= weight[0]
    jets[1:] += weight[1:, None] * value
    for k, matrix in enumerate(second):
        for i in range(d):
            for j in range(d):
                if matrix[i, j]:
                    jets[1 + d + k] += (2 * matrix[i, j] * weight[1 + i]) * first[j]
    return jets


def _chebyshev(z: Array, degree: int) -> Array:
    """Return T_0 … T_degree at z: [k], with two derivatives, [3, degree + 1, k]."""
    found = np.zeros((3, degree + 1, len(z)))
    t, t1, t2 = found
    t[0] = 1.0
    if degree:
        t[1], t1[1] = z, 1.0
    for k in range(1, degree):
        t[k + 1] = 2 * z * t[k] - t[k - 1]
        t1[k + 1] = 2 * t[k] + 2 * z * t1[k] - t1[k - 1]
        t2[k + 1] = 4 * t1[k] + 2 * z * t2[k] - t2[k - 1]
    return found
