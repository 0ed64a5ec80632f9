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


@dataclass(frozen=True)
class _Window:
    """Points of a request in one window, [n] rows.

    tables : T_0 … T_E of the coordinates in the window, with their derivatives by x,
        [d][order, E + 1, n].
    weight : the jets of the window's weight, [Q, n]; None where that is 1.
    """

    rows: Integers
    tables: list[Array]
    weight: Array | None


def jets_of(model: Any, c: Array, request: Request) -> Array:
    """Return the jets of u with coefficients c: [K, M, m] of a model, [Q, m, n] (local)."""
    found = np.zeros((request.size, c.shape[2], len(request.x)))
    for at, of_window in zip(_windows(model, request), c, strict=True):
        found[:, :, at.rows] += _jets(model.exponents, at, request.operators, of_window)
    return found


def columns_at(model: Any, request: Request) -> Iterator[Columns]:
    """Yield the jets of a model's columns, window by window (local)."""
    for at in _windows(model, request):
        yield Columns(at.rows, _jets(model.exponents, at, request.operators))


def _windows(model: Any, request: Request) -> Iterator[_Window]:
    """Yield the points of each window; of the same cells, weights are computed once."""
    cells, degrees = model.cells, model.exponents.max(axis=0)
    if cells not in request.cells:
        request.cells[cells] = _in_cells(cells, request)
    rows, ends, z, scale, weight = request.cells[cells]
    highest = max([2, *(order_of(each) for each in request.operators if each)])
    powers = np.arange(highest + 1)[:, None, None]
    tables = [_chebyshev(of_axis, int(e), highest) for of_axis, e in zip(z, degrees, strict=True)]
    for slopes, (a, b) in zip(scale, pairwise(ends), strict=True):
        of_window = [t[..., a:b] * slope**powers for t, slope in zip(tables, slopes, strict=True)]
        yield _Window(rows[a:b], of_window, None if weight is None else weight[:, a:b])


def _in_cells(cells: Any, request: Request) -> tuple[Any, ...]:
    """Return rows: [N], where those of each window end, z: [d, N], scale: [K, d], and weights."""
    n, d = request.x.shape
    if len(cells.kept) == cells.slots == 1:
        low, high = cells.supports()
        scale = 2 / (high - low)
        return np.arange(n), [0, n], ((request.x - (low + high) / 2) * scale).T, scale, None
    box = cells.slots == 1  # without weights, as slabs of time alone
    second = np.array([matrix_of(each, d) for each in request.operators if not box])
    at = Propagated.at(tf.constant(request.x), second.reshape(-1, d, d))
    numbers, weight, inside, scale = cells.at(at)
    place = numbers.numpy()
    jets = np.stack([_whole(part, len(place)) for part in weight.asked()])
    order = np.flatnonzero(jets[0] > 0)
    order = order[np.argsort(place[order], kind="stable")]
    rows = np.tile(np.arange(n), len(place) // max(n, 1))[order]
    z, ends = np.stack(inside)[:, order], np.arange(len(cells.kept) + 1)
    ends = np.searchsorted(place[order], ends)
    return rows, ends, z, scale, None if box else jets[:, order]


def _jets(
    exponents: Integers, at: _Window, operators: Sequence[Operator], c: Array | None = None
) -> Array:
    """Return the jets of w Π_i T_e(z_i), [Q, M, n]; with c: [M, m] of their sum, [Q, m, n]."""
    d, tables = len(at.tables), at.tables
    grid = None if c is None or d > _FEW else _on_grid(exponents, c)

    @cache  # of several operators
    def product(axes: Axes) -> Array:
        if grid is not None:
            return _sums(grid, tables, axes)
        values = _products(exponents, tables, axes)
        return values if c is None else c.T @ values

    width = len(exponents) if c is None else c.shape[1]
    jets = np.zeros((1 + d + len(operators), width, len(at.rows)))
    for jet, axes in zip(jets, [(), *((i,) for i in range(d))], strict=False):
        jet[...] = product(axes)
    for jet, operator in zip(jets[1 + d :], operators, strict=True):
        for axes, factor in operator:
            jet += factor * product(axes)
    if at.weight is None:
        return jets
    second = np.array([matrix_of(each, d) for each in operators]).reshape(-1, d, d)
    return _weighted(jets, at.weight, second)


def _on_grid(exponents: Integers, c: Array) -> Array:
    """Return coefficients c: [M, m] at their places among all exponents, [m, E_1, …, E_d]."""
    grid = np.zeros((c.shape[1], *(1 + exponents.max(axis=0))))
    grid[(slice(None), *exponents.T)] = c.T
    return grid


def _sums(grid: Array, tables: Sequence[Array], axes: Axes) -> Array:
    """Return Σ_e c_e Π_i ∂^k_i T_e_i of one derivative, [m, n], one axis after another."""
    found = np.tensordot(grid, tables[-1][axes.count(len(tables) - 1)], axes=1)
    for i in reversed(range(len(tables) - 1)):
        found = np.einsum("...ek,ek->...k", found, tables[i][axes.count(i)])
    return found


def _products(exponents: Integers, tables: Sequence[Array], axes: Axes) -> Array:
    """Return Π_i ∂^k_i T_e_i of one derivative, [M, n]."""
    count, d = exponents.shape
    if d <= _FEW:
        found = tables[0][axes.count(0)][exponents[:, 0]]
        for i in range(1, d):
            found *= tables[i][axes.count(i)][exponents[:, i]]
        return found
    # Derivatives of low degrees are zero, and T_0 = 1: of many variables few are in a product.
    rows = np.flatnonzero(np.all([exponents[:, i] >= axes.count(i) for i in range(d)], axis=0))
    found, part = (np.zeros((k, tables[0].shape[2])) for k in (count, len(rows)))
    part += 1.0
    for i in range(d):
        order, e = axes.count(i), exponents[rows, i]
        some = np.flatnonzero(e)
        if order or 2 * len(some) > len(e):
            part *= tables[i][order][e]
        elif len(some):
            part[some] *= tables[i][0][e[some]]
    found[rows] = part
    return found


def _whole(part: Any, n: int) -> Array:
    return np.zeros(n) if part is None else np.broadcast_to(part.numpy()[0], n)


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
