"""The jets of polynomials in windows at points, in closed form, window by window.

The same functions as `sciml_par.networks.Polynomials` computes in TensorFlow: an operation there
takes longer than the arithmetic of a window, and here all of a window stays in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Axes, Operator, matrix_of, order_of
from sciml_par._tensorflow import tf
from sciml_par.assembly.equations import Request
from sciml_par.networks.propagation.propagation import Propagated

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_IN_WINDOWS = 2
"""The order of derivatives of products with weights of windows."""
_FEW = 3
"""Variables, of which most products contain any."""


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
    d, operators = request.x.shape[1], request.operators
    if count == model.cells.slots == 1:
        (low,), (high,) = model.cells.supports()
        scale = 2 / (high - low)
        z = ((request.x - (low + high) / 2) * scale).T
        yield Columns(np.arange(n), _products(model.exponents, z, scale, operators))
        return
    box = model.cells.slots == 1  # without weights, as slabs of time alone
    second = np.array([matrix_of(each, d) for each in operators if not box]).reshape(-1, d, d)
    at = Propagated.at(tf.constant(request.x), second)
    numbers, weight, inside, scale = model.cells.at(at)
    place = numbers.numpy()
    jets = np.stack([_whole(part, len(place)) for part in weight.asked()])
    order = np.flatnonzero(jets[0] > 0)
    order = order[np.argsort(place[order], kind="stable")]
    rows = np.tile(np.arange(n), len(place) // max(n, 1))[order]
    z, jets = np.stack([each.numpy()[order] for each in inside]), jets[:, order]
    ends = np.searchsorted(place[order], np.arange(count + 1))
    for number, (a, b) in enumerate(pairwise(ends)):
        found = _products(model.exponents, z[:, a:b], scale[number], operators)
        yield Columns(rows[a:b], found if box else _weighted(found, jets[:, a:b], second))


def _whole(part: Any, n: int) -> Array:
    return np.zeros(n) if part is None else np.broadcast_to(part.numpy()[0], n)


def _products(exponents: Integers, z: Array, scale: Array, operators: Sequence[Operator]) -> Array:
    """Return the jets of Π_i T_e(z_i), whose coordinates have the slopes `scale`: [Q, M, k]."""
    (count, d), k = exponents.shape, z.shape[1]
    highest = max([2, *(order_of(each) for each in operators if each)])
    powers = np.arange(highest + 1)[:, None, None]
    tables = [
        _chebyshev(z[i], int(exponents[:, i].max()), highest) * scale[i] ** powers for i in range(d)
    ]

    def product(axes: Axes) -> Array:
        if d <= _FEW:
            found = tables[0][axes.count(0)][exponents[:, 0]]
            for i in range(1, d):
                found *= tables[i][axes.count(i)][exponents[:, i]]
            return found
        # Derivatives of low degrees are zero, and T_0 = 1: of many variables few are in a product.
        rows = np.flatnonzero(np.all([exponents[:, i] >= axes.count(i) for i in range(d)], axis=0))
        found, part = np.zeros((count, k)), np.ones((len(rows), k))
        for i in range(d):
            order, e = axes.count(i), exponents[rows, i]
            some = np.flatnonzero(e)
            if order or 2 * len(some) > len(e):
                part *= tables[i][order][e]
            elif len(some):
                part[some] *= tables[i][0][e[some]]
        found[rows] = part
        return found

    jets = np.zeros((1 + d + len(operators), count, k))
    for jet, axes in zip(jets, [(), *((i,) for i in range(d))], strict=False):
        jet[...] = product(axes)
    kept = cache(product)  # of several operators
    for jet, operator in zip(jets[1 + d :], operators, strict=True):
        for axes, factor in operator:
            jet += factor * kept(axes)
    return jets


def _weighted(jets: Array, weight: Array, second: Array) -> Array:
    """Return the jets of w φ: [Q, M, k] for jets of w: [Q, k]."""
    value, d = jets[0].copy(), second.shape[1]
    slopes = np.flatnonzero(weight[1 : 1 + d].any(axis=1))  # along axes with several cells
    first = jets[1 : 1 + d].copy() if len(second) and len(slopes) else jets
    jets *= weight[0]
    for jet, own in zip(jets[1:], weight[1:], strict=True):
        if own.any():
            jet += own * value
    for k, matrix in enumerate(second):
        for i in slopes:
            for j in np.flatnonzero(matrix[i]):
                jets[1 + d + k] += (2 * matrix[i, j] * weight[1 + i]) * first[j]
    return jets


def _chebyshev(z: Array, degree: int, highest: int) -> Array:
    """Return T_0 … T_degree at z: [k], with their derivatives, [highest + 1, degree + 1, k]."""
    t = np.zeros((highest + 1, degree + 1, len(z)))
    t[0, 0] = 1.0
    if degree:
        t[0, 1], t[1, 1] = z, 1.0
    orders = np.arange(1, highest + 1)[:, None]
    for k in range(1, degree):
        t[:, k + 1] = 2 * z * t[:, k] - t[:, k - 1]
        t[1:, k + 1] += 2 * orders * t[:-1, k]
    return t
