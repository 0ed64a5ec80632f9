"""The jets of polynomials in windows at points, in closed form, window by window.

The same functions as `sciml_par.networks.Polynomials` computes in TensorFlow: an operation there
takes longer than the arithmetic of a window, and here all of a window stays in a cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import pairwise, product
from math import comb
from operator import add, mul
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Polynomial

from sciml_par._partial_operators import Axes, Operator, order_of, splits
from sciml_par.assembly.asked import Request

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_FEW = 3
"""Variables, of which most products contain any."""
_AT_ONCE, _FEWEST = 1 << 18, 128
"""Numbers of columns at points that are computed at once, as many as a cache holds; and points."""
_STEP = Polynomial([0, 0, 0, 0, 35, -84, 70, -20])
"""From 0 at s = 0 to 1 at s = 1, three times continuously differentiable there: see `Cells`."""


@dataclass(frozen=True)
class Columns:
    """The jets of the M' columns that a window uses, at points of a request: [R, M', n], [n].

    Those of what is read, R of Q.
    """

    rows: Integers
    jets: Array


@dataclass(frozen=True)
class _Window:
    """Points of a request in one window, [n] rows.

    tables : T_0 … T_E of the coordinates in the window, times the weight along this axis, with
        their derivatives by x, [d][order, E + 1, n].
    inverse : 1 / Σw with its derivatives, [n] each, beside windows that are dropped; or None.
    corners : the parts of each corner function with their derivatives, [F, n] each; None in
        windows that are far from the corner.
    """

    rows: Integers
    tables: list[Array]
    inverse: Mapping[Axes, Array] | None
    corners: Sequence[Mapping[Axes, Array] | None]

    def part(self, some: slice) -> _Window:
        """Return some of the points."""

        def of(values: Mapping[Axes, Array] | None) -> Mapping[Axes, Array] | None:
            return None if values is None else {k: v[..., some] for k, v in values.items()}

        tables = [table[..., some] for table in self.tables]
        return _Window(self.rows[some], tables, of(self.inverse), [*map(of, self.corners)])


@dataclass(frozen=True)
class _Cover:
    """The windows of points, N in all, sorted by windows.

    rows : [N].
    ends : where the rows of a window end, [K + 1].
    z, scale : coordinates in the window, [d, N], and their derivatives by x.
    weights : along each axis, with derivatives by x, [d][order, N]; None where they are 1.
    inverse : as of `_Window`, at all points; None where no window is dropped.
    """

    rows: Integers
    ends: Integers
    z: Array
    scale: Array
    weights: list[Array | None]
    inverse: Mapping[Axes, Array] | None


def jets_of(model: Any, c: Array, request: Request) -> Array:
    """Return the jets of u with coefficients c: [K, M, m] of a model, [Q, m, n] (local)."""
    found = np.zeros((len(request.places), c.shape[2], len(request.x)))
    for at, of_window in zip(_windows(model, request), c, strict=True):
        found[:, :, at.rows] += _jets(model, at, request, of_window)
    return of_all_places(request, found)


def columns_at(model: Any, request: Request) -> Iterator[Columns]:
    """Yield the jets of a model's columns, window by window (local)."""
    if hasattr(model, "columns_at"):  # other functions than polynomials
        for columns in model.columns_at(request):
            yield replace(columns, jets=columns.jets[list(request.places)])
        return
    for at in _windows(model, request):
        yield Columns(at.rows, _jets(model, at, request))


def of_all_places(request: Request, jets: Array) -> Array:
    """Return jets of what is read, [R, …], with NaN for the rest, [Q, …] (local)."""
    if request.read is None:
        return jets
    whole = np.full((request.size, *jets.shape[1:]), np.nan)
    whole[list(request.read)] = jets
    return whole


def _windows(model: Any, request: Request) -> Iterator[_Window]:
    """Yield the points of each window; of the same cells, weights are computed once."""
    cells, degrees = model.cells, model.exponents.max(axis=0)
    highest = max([1, *(order_of(each) for each in request.operators if each)])
    if cells not in request.cells:
        request.cells[cells] = _cover(cells, request, highest)
    at: _Cover = request.cells[cells]
    powers, tables = np.arange(highest + 1)[:, None], []
    for z, scale, weight, degree in zip(at.z, at.scale, at.weights, degrees, strict=True):
        table = _chebyshev(z, int(degree), highest)
        table *= (scale**powers)[:, None]
        tables.append(table if weight is None else _product_rule(weight, table))
    asked = [axes for operator in _read_of(request) for axes, _ in operator]
    needed = list({part for axes in asked for part, _ in splits(axes)})
    for window, (a, b) in enumerate(pairwise(at.ends)):
        rows, inverse = at.rows[a:b], at.inverse
        corners = [
            function.parts(request.x[rows], needed) if windows[window] else None
            for (function, _), windows in zip(model.corners, model.near, strict=True)
        ]
        if inverse is not None:
            near = not np.all(inverse[()][rows] == 1)
            inverse = {axes: v[rows] for axes, v in inverse.items()} if near else None
        yield _Window(rows, [table[..., a:b] for table in tables], inverse, corners)


def _product_rule(weight: Array, table: Array) -> Array:
    """Return the derivatives of w T: [order, E + 1, N] of those of w: [order, N] and T."""
    terms = [
        sum(comb(k, j) * weight[j] * table[k - j] for j in range(k + 1)) for k in range(len(table))
    ]
    return np.stack(terms)


def _cover(cells: Any, request: Request, highest: int) -> _Cover:
    """Return the windows of the points of a request, with derivatives up to the highest order."""
    n, d = request.x.shape
    parts = getattr(cells, "parts", (cells,))  # slabs of time, one after another
    times = [part.breaks[-1][0] for part in parts[1:]]
    slab, begin, slots = np.searchsorted(times, request.x[:, -1], side="left"), 0, []
    for number, part in enumerate(parts):
        rows = np.flatnonzero(slab == number)
        axes = [_along(part, request.x[rows, i], i, highest) for i in range(d)]
        index = np.full(int(np.prod(part.shape)), -1)
        index[part.kept] = begin + np.arange(len(part.kept))
        for slot in product(*(range(len(weights)) for _, weights in axes)):
            weights = [of_axis[k] for (_, of_axis), k in zip(axes, slot, strict=True)]
            there = reduce(mul, [w[0] for w in weights]) > 0
            places = [(first + k)[there] for (first, _), k in zip(axes, slot, strict=True)]
            windows = index[np.ravel_multi_index(places, part.shape)]
            slots.append((windows, rows[there], *(w[:, there] for w in weights)))
        begin += len(part.kept)
    windows, rows, *weights = (np.concatenate(of, axis=-1) for of in zip(*slots, strict=True))
    kept = np.flatnonzero(windows >= 0)
    dropped = rows[windows < 0]
    order = kept[np.argsort(windows[kept], kind="stable")]
    windows, rows, weights = windows[order], rows[order], [w[:, order] for w in weights]
    low, high = cells.supports()
    scale = (2 / (high - low)).T[:, windows]
    z = (request.x[rows].T - ((low + high) / 2).T[:, windows]) * scale
    single = [all(part.shape[i] == 1 for part in parts) for i in range(d)]
    along = [None if one else w for one, w in zip(single, weights, strict=True)]
    inverse = _inverse_of_sum(request, rows, weights, dropped) if len(dropped) else None
    return _Cover(rows, np.searchsorted(windows, np.arange(begin + 1)), z, scale, along, inverse)


def _along(part: Any, s: Array, axis: int, highest: int) -> tuple[Integers, list[Array]]:
    """Return the first of two windows that may cover s: [n], and w of both, [order, n] each."""
    one = np.zeros((highest + 1, len(s)))
    one[0] = 1.0
    if part.shape[axis] == 1:
        return np.zeros(len(s), np.int64), [one]
    breaks, reach = np.asarray(part.breaks[axis]), part.reach[axis]
    cell = np.searchsorted(breaks[1:-1], s, side="right")
    first = cell - ((cell > 0) & (s < (breaks + reach)[cell]))
    first = np.minimum(first, part.shape[axis] - 2)
    width = reach[first + 1]
    t, factor = (1 + (s - breaks[first + 1]) / width) / 2, 1 / (2 * width)
    inside = (t > 0) & (t < 1)
    rise = [_STEP.deriv(k)(t) * inside * factor**k for k in range(1, highest + 1)]
    step = np.stack([_STEP(np.clip(t, 0.0, 1.0)), *rise])
    return first, [one - step, step]


def _inverse_of_sum(
    request: Request, rows: Integers, weights: Sequence[Array], dropped: Integers
) -> dict[Axes, Array]:
    """Return V = 1/Σw with its derivatives by the axes of a request's operators, [n] each.

    ∂^α(V Σw) = 0 gives that of V by those of lower orders. V = 1 where no window is dropped.
    """
    n, d = request.x.shape
    asked = [axes for operator in request.operators for axes, _ in operator]
    needed = {part for axes in [*asked, *((i,) for i in range(d))] for part, _ in splits(axes)}
    near, inverse = np.zeros(n, bool), dict[Axes, Array]()
    near[dropped] = True
    total = {}
    for axes in needed:
        of_axes = [w[axes.count(i)] for i, w in enumerate(weights)]
        total[axes] = np.bincount(rows, reduce(mul, of_axes), n)
    # In the middle of a dropped cell there is nothing to divide by, and u = 0.
    inverse[()] = np.where(near & (total[()] > 0), 1 / np.where(total[()] > 0, total[()], 1), 1.0)
    for axes in sorted(needed - {()}, key=len):
        lower = sum(inverse[part] * total[rest] for part, rest in splits(axes) if rest)
        inverse[axes] = np.where(near, -lower * inverse[()], 0.0)
    return inverse


def _read_of(request: Request) -> list[Operator]:
    """Return u, ∂_i u and operators, as far as they are read."""
    first: list[Operator] = [(((i,), 1.0),) for i in range(request.x.shape[1])]
    every: list[Operator] = [(((), 1.0),), *first, *request.operators]
    return [every[place] for place in request.places]


def _jets(model: Any, at: _Window, request: Request, c: Array | None = None) -> Array:
    """Return the jets of a window's columns, [R, M', n]; with c: [M, m] of their sum, [R, m, n]."""
    exponents, n = model.exponents, len(at.rows)
    of_functions = zip(model.corners, at.corners, strict=True)
    counts = [f.count * len(rows) for (f, rows), parts in of_functions if parts is not None]
    asked = _read_of(request)
    width = len(exponents) + sum(counts) if c is None else c.shape[1]
    jets = np.zeros((len(asked), width, n))
    at_once = max(_AT_ONCE // max(width, 1), _FEWEST)
    for begin in range(0, n, at_once):
        part, first = slice(begin, begin + at_once), 0
        for count, of_columns in _derivatives(model, at.part(part), c):
            own = slice(first, first := first + count) if c is None else slice(None)
            for jet, operator in zip(jets[:, own, part], asked, strict=True):
                for axes, factor in operator:
                    values = of_columns(axes)
                    if values is not None:
                        jet += values if factor == 1 else factor * values
    return jets


def _derivatives(
    model: Any, at: _Window, c: Array | None
) -> Iterator[tuple[int, Callable[[Axes], Array | None]]]:
    """Yield how many columns of a window have derivatives, and these, or those of their sum."""
    first = len(model.exponents)
    yield first, _polynomials(model.exponents, at, None if c is None else c[:first])
    for (function, rows), parts in zip(model.corners, at.corners, strict=True):
        count = function.count * len(rows)
        own = None if c is None else c[first : first + count]
        first += count
        if parts is not None:
            yield count, _at_corner(model.exponents[rows], at, parts, own)


def _polynomials(exponents: Integers, at: _Window, c: Array | None) -> Callable[[Axes], Array]:
    """Return the derivatives of w Π_i T_e(z_i) by axes, [M, n], or of their sum, [m, n]."""
    d, tables, inverse = len(at.tables), at.tables, at.inverse
    grid = None
    if c is not None and d <= _FEW:  # coefficients among all exponents, [m, E_1, …, E_d]
        grid = np.zeros((c.shape[1], *(1 + exponents.max(axis=0))))
        grid[(slice(None), *exponents.T)] = c.T

    @cache  # of several operators
    def weighted(axes: Axes) -> Array:
        if grid is not None:
            return _sums(grid, tables, axes)
        values = _products(exponents, tables, axes)
        return values if c is None else c.T @ values

    @cache
    def jet_of(axes: Axes) -> Array:
        if inverse is None:
            return weighted(axes)
        parts = [weighted(part) * inverse[rest] for part, rest in splits(axes)]
        return np.asarray(sum(parts))

    return jet_of


def _at_corner(
    exponents: Integers, at: _Window, parts: Mapping[Axes, Array], c: Array | None
) -> Callable[[Axes], Array | None]:
    """Return the derivatives of a corner function's parts times polynomials, as there."""
    polynomials = _polynomials(exponents, at, None)

    @cache
    def jet_of(axes: Axes) -> Array | None:
        terms = [
            (parts[rest] if times == 1 else times * parts[rest])[:, None] * polynomials(part)
            for (part, rest), times in Counter(splits(axes)).items()
            if rest in parts
        ]
        if not terms:
            return None
        products = reduce(add, terms)
        values = products.reshape(len(products) * len(exponents), products.shape[2])
        return values if c is None else np.asarray(c.T @ values)

    return jet_of


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
