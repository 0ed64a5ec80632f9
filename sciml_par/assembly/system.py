"""The least-squares problem of equations and of columns: J[i, j] = Σ_q ∂r_i/∂z_q φ_jq(x_i).

Behind the columns J has those of unknown coefficients, ∂r_i/∂p.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.algebra.banded import Block, by_blocks, common_rows
from sciml_par.algebra.dense import (
    by_normal_equations,
    by_orthogonal_factors,
    pseudoinverse,
    triangle,
)
from sciml_par.assembly.asked import Request
from sciml_par.assembly.columns import Columns, columns_at, jets_of, of_all_places
from sciml_par.assembly.equations import Equations, Linearized

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LEAST_WEIGHT, _ROUNDING, _FEW, _SOME = 1e-3, 1e-15, 1_000, 2_000
"""The last: columns, for which a QR factorization with pivoting takes little time; and without."""
_MOST_KEPT, _COLUMNS, _POINTS = 1e8, 256, 4_096
"""Numbers in columns that are kept; and columns that are multiplied, and points at which others are
computed, at once."""
_SMALL, _CONVERGED = 1e-12, 1e-12
"""Of the largest component, as which at least others count; and a step of `newton` that is none."""
_LITTLE_GAIN, _AS_FORESEEN, _LEAST_SIZE, _NO_GAIN, _LITTLE = 0.5, 1.0 + 1e-5, 1e-3, 1e-9, 1e-8
"""A whole step that leaves more than this share of the loss may be the last; the shortest step."""


class System:
    """min_θ Σ |√w r(u_c, p)|² over θ = (c: [K, M, m], p: [q]) of a model, at fixed points.

    Parameters
    ----------
    equations : at their points.
    model : with `columns` and `coefficients`, such as `sciml_par.networks.Polynomials`.
    base : the jets of a known field that is added to the columns' one, [Q, m, n] for each request
        of each term; by default zero.
    singular : whether functions can be added to u, as a constant, which no row tells.
    """

    def __init__(
        self,
        equations: Equations,
        model: Any,
        base: Sequence[Sequence[Array]] | None = None,
        *,
        singular: bool = False,
    ) -> None:
        self.equations, self.model, self.base, self.singular = equations, model, base, singular
        self.windows, self.width, self.outputs = map(int, model.coefficients.shape)
        every = [request for rows in equations.rows for request in rows.requests]
        numbers = self.width * sum(len(each.places) * len(each.x) for each in every)
        # Those of one window that are more than J itself are computed where they are needed.
        self.columns: list[list[list[Columns]]] = []
        if self.windows > 1 or numbers <= _MOST_KEPT:
            self.columns = [
                [list(columns_at(model, request)) for request in rows.requests]
                for rows in equations.rows
            ]
        self.unknowns = sum(each.size for each in equations.problem.unknowns.values())

    def weighted(self, factors: Sequence[float]) -> System:
        """Return the same problem with these factors of √w of the terms (local)."""
        other = copy.copy(self)
        other.equations = self.equations.weighted(factors)
        return other

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Return c: [K, M, m] and p: [q] of θ."""
        own = len(theta) - self.unknowns
        return theta[:own].reshape(self.windows, self.width, self.outputs), theta[own:]

    def jets(self, theta: Array) -> list[list[Array]]:
        """Return the jets of u at the requests of each term, [Q, m, n] each (local)."""
        found, (c, _) = [], self.split(theta)
        for t, rows in enumerate(self.equations.rows):
            row = []
            for e, request in enumerate(rows.requests):
                z = self._jets(self.columns[t][e], c, request) if self.columns else None
                z = jets_of(self.model, c, request) if z is None else z
                row.append(z if self.base is None else z + self.base[t][e])
            found.append(row)
        return found

    def _jets(self, windows: Sequence[Columns], c: Array, request: Request) -> Array:
        z = np.zeros((len(request.places), self.outputs, len(request.x)))
        for columns, own, used in zip(windows, c, self.model.used, strict=True):
            if own.any():
                z[:, :, columns.rows] += np.matmul(own[used].T, columns.jets)
        return of_all_places(request, z)

    def linearized(self, theta: Array) -> list[Linearized]:
        """Return the terms at θ with their derivatives (local)."""
        return self.equations.linearized(self.jets(theta), self.split(theta)[1])

    def jacobian(self, terms: Sequence[Linearized]) -> list[Block]:
        """Return the derivatives of the rows by the coefficients, window by window (local)."""
        return [self._block(window, terms) for window in range(self.windows)]

    def step(self, terms: Sequence[Linearized], *, fixed: bool = False) -> tuple[Array, float]:
        """Return argmin_d |J d − r|, and the least |J d − r|² (local).

        fixed : unknowns do not move; of one window.
        """
        r = flat(terms)
        if fixed and self.unknowns:
            d, left = by_orthogonal_factors(self.dense(terms)[: -self.unknowns], r)
            return np.concatenate([d, np.zeros(self.unknowns)]), left
        if self.windows == 1:
            # With unknowns, light rows of data may be all that determines a column; functions of
            # corners are nearly polynomials away from these.
            count = self.width * self.outputs if self.model.corners else 0
            if self.unknowns or 0 < count <= _FEW:
                return by_orthogonal_factors(self.dense(terms), r)
            if not _FEW < count <= _SOME or self.model.input_size > 2:  # there are many rows then
                return by_normal_equations(self.dense(terms), r)
            ((d, rest),) = self.reduced(terms, r[None])
            return d, float(rest @ rest)
        # With J = [A B]: what A leaves of r is reduced by what it leaves of B.
        right = np.vstack([r, self._by_unknowns(terms)])
        solved = self.reduced(terms, right)
        changes, lefts = (np.stack(parts) for parts in zip(*solved, strict=True))
        dp, left = by_orthogonal_factors(lefts[1:], lefts[0])
        return np.concatenate([changes[0] - dp @ changes[1:], dp]), left

    def reduced(self, terms: Sequence[Linearized], right: Array) -> list[tuple[Array, Array]]:
        """Return argmin_d |J d − r| and what is left for each right side, in windows (local)."""
        blocks, found = self.jacobian(terms), []
        for own, left in by_blocks(blocks, right, self._common, singular=self.singular):
            d = np.zeros(self._used.shape)
            d[self._used] = own
            found.append((d, left))
        return found

    def dense(self, terms: Sequence[Linearized]) -> Array:
        """Return Jᵀ: [K M m + q, N] (local)."""
        blocks, by_unknowns = self.jacobian(terms), self._by_unknowns(terms)
        if self.windows == 1 and not self.unknowns:
            return blocks[0].columns
        places = np.split(np.flatnonzero(self._used), np.cumsum([len(b.columns) for b in blocks]))
        columns = np.zeros((self._used.size + self.unknowns, by_unknowns.shape[1]))
        columns[self._used.size :] = by_unknowns
        for rows, block in zip(places, blocks, strict=False):
            columns[np.ix_(rows, block.rows)] = block.columns
        return columns

    def triangle(self, terms: Sequence[Linearized]) -> Array:
        """Return R of the QR factorization of J (local)."""
        return triangle(self.dense(terms))

    def _by_unknowns(self, terms: Sequence[Linearized]) -> Array:
        parts = [each.by_unknowns.reshape(self.unknowns, each.residuals.size) for each in terms]
        return np.concatenate(parts, axis=1)

    def values(self, x: Array) -> Array:
        """Return ∂u/∂θ for one window at x: [n, d] -> [n m, M m + q] (local)."""
        (columns,) = columns_at(self.model, Request(x))
        values = np.kron(columns.jets[0].T, np.eye(self.outputs))
        return np.hstack([values, np.zeros((len(values), self.unknowns))])

    def fitted(self, function: Callable[[Array], Array]) -> Array:
        """Return coefficients of a function x: [n, d] -> [n, k] in windows, [K, M, k] (local).

        Since the weights of windows add up to one, each is fitted alone.
        """
        from scipy.linalg import lstsq

        rows = self.equations.rows[0]
        values_of = Request(rows.requests[rows.own].x, read=(0,))
        u, every = function(values_of.x), columns_at(self.model, values_of)
        found = np.zeros((self.windows, self.width, u.shape[1]))
        for c, columns, used in zip(found, every, self.model.used, strict=True):
            weight, at = columns.jets[0, 0], columns.rows
            inside = weight > _LEAST_WEIGHT
            values = (columns.jets[0] / weight)[:, inside]
            c[used] = lstsq(values.T, u[at[inside]], 1e-10, lapack_driver="gelsy")[0]
        return found

    @cached_property
    def _used(self) -> npt.NDArray[np.bool_]:
        """Which coefficients of θ have columns that are not zero, [K M m]."""
        return np.repeat(np.ravel(self.model.used), self.outputs)

    @cached_property
    def _rows(self) -> list[list[tuple[Integers, Integers]]]:
        """Of each window and term: the points that it covers, and the numbers of their rows."""
        found = []
        for window in range(self.windows):
            of_window, first = [], 0
            for t, rows in enumerate(self.equations.rows):
                # A prior of an unknown asks for no values of u.
                points = np.arange(rows.points if rows.requests and not self.columns else 0)
                if self.columns and rows.requests:
                    points = np.unique(np.concatenate([of[window].rows for of in self.columns[t]]))
                    if any(len(self.columns[t][number][window].rows) for number in rows.fixed):
                        points = np.arange(rows.points)
                coupled = rows.sums is not None and len(points)
                places = np.arange(rows.count) if coupled else points
                numbers = [first + j * rows.count + places for j in range(rows.asked.components)]
                of_window.append((points, np.concatenate(numbers)))
                first += rows.asked.components * rows.count
            found.append(of_window)
        return found

    @cached_property
    def _common(self) -> dict[tuple[int, int], tuple[Integers, Integers]]:
        return common_rows([np.concatenate([n for _, n in each]) for each in self._rows])

    def _block(self, window: int, terms: Sequence[Linearized]) -> Block:
        numbers = np.concatenate([numbers for _, numbers in self._rows[window]])
        m, width, end = self.outputs, int(self.model.used[window].sum()), 0
        whole = np.zeros((width, m, len(numbers)))
        of = self.equations.rows, terms, self._rows[window]
        for t, (rows, term, (points, of_rows)) in enumerate(zip(*of, strict=True)):
            k, begin, end = len(term.residuals), end, end + len(of_rows)
            # A view, since there are no larger arrays.
            block = whole[:, :, begin:end].reshape(width, m, k, len(of_rows) // k)
            if rows.sums is not None:
                block = np.zeros((width, m, k, len(points)))
            both = zip(rows.requests, term.by_jets, strict=True)
            slopes = [slope[:, list(request.places)] for request, slope in both]
            for number, columns in self._pieces(t, window):
                slope = slopes[number]
                if slope.ndim > len(block.shape):  # of points on which all rows depend
                    every = slope[..., columns.rows, :]
                    block += np.einsum("jqbxn,qwx->wbjn", every, columns.jets, optimize=True)
                    continue
                at = _as_slice(np.searchsorted(points, columns.rows))
                add_products(block, at, slope[..., columns.rows], columns.jets)
            if rows.sums is not None and len(points):
                whole[:, :, begin:end] = rows.of_points(block, points).reshape(width, m, -1)
        return Block(numbers, whole.reshape(width * m, -1))

    def _pieces(self, t: int, window: int) -> Iterator[tuple[int, Columns]]:
        """Yield columns of a term in a window, with the number of the request (local).

        Those that are not kept come at some points at a time.
        """
        for number, request in enumerate(self.equations.rows[t].requests):
            if self.columns:
                yield number, self.columns[t][number][window]
                continue
            for begin in range(0, len(request.x), _POINTS):
                part = replace(request, x=request.x[begin : begin + _POINTS], cells={})
                for each in columns_at(self.model, part):
                    yield number, replace(each, rows=begin + each.rows)


def _as_slice(at: Integers) -> Integers | slice:
    """Return consecutive places as a slice, of which NumPy makes no copy."""
    first = int(at[0]) if len(at) else 0
    same = np.array_equal(at, np.arange(first, first + len(at)))
    return slice(first, first + len(at)) if same else at


def add_products(block: Array, at: Any, slopes: Array, jets: Any) -> None:
    """Add Σ_q φ_q ∂r/∂z_q to some points of a block [M, m, k, N]: [k, Q, m, n] and Q of [M, n]."""
    for j, b in np.ndindex(slopes.shape[::2]):
        for f, phi in zip(slopes[j, :, b], jets, strict=True):
            if f.any():
                for some in range(0, len(phi), _COLUMNS):  # so that products stay small
                    part = slice(some, some + _COLUMNS)
                    block[part, b, j][:, at] += phi[part] * f


@dataclass(frozen=True)
class Solved:
    """Coefficients after Gauss–Newton steps.

    Attributes
    ----------
    c, p : of the model, [K, M, m], and of unknowns, [q].
    before : √w r of the terms at the start, [k, n] each.
    terms : these with the coefficients, with their derivatives.
    loss : the sum of squares with them.
    steps : how many were made.
    direction, size : the last step, θ − size · direction; a size of 0 was not made. A direction of
        zeros: the linear equations foresaw what the step found, and a further one is none.
    """

    c: Array
    p: Array
    before: list[Array]
    terms: list[Linearized]
    loss: float
    steps: int
    direction: Array
    size: float

    @property
    def residuals(self) -> list[Array]:
        """√w r of the terms with the coefficients, [k, n] each."""
        return [term.residuals for term in self.terms]


def gauss_newton(
    system: System,
    theta: Array,
    *,
    steps: int,
    fixed: bool = False,
    first: tuple[Array, float] | None = None,
) -> Solved:
    """Return the end of steps of Gauss–Newton from θ, each halved until the loss falls (local).

    The last is a step that gains what the linear equations foresee, or a whole one that leaves more
    than half of the loss where they leave over a quarter, or near rounding. With unknowns,
    errors of data leave a loss: the last is the one after which they foresee no fall.

    fixed : unknowns do not move.
    first : the first step, if it is known, and what is left after it; see `System.step`.
    """
    terms = system.linearized(theta)
    before = [term.residuals for term in terms]
    begun = loss = squares(terms)
    size, d, number = 1.0, np.zeros_like(theta), 0
    while number < steps and np.isfinite(loss):
        (d, foreseen), first = first or system.step(terms, fixed=fixed), None
        size, former = 1.0, loss
        gain = _NO_GAIN * former if system.unknowns else -np.inf
        if former - foreseen < gain or np.abs(d).max() < _ROUNDING * np.abs(theta).max():
            d = np.zeros_like(d)
            break
        while size > _LEAST_SIZE:
            found = system.linearized(moved := theta - size * d)
            loss = squares(found)
            if loss < former:
                break
            size /= 2
        else:
            loss, size = former, 0.0
            break
        theta, terms, number = moved, found, number + 1
        if system.unknowns or size < 1.0:
            continue
        if loss < _AS_FORESEEN * foreseen:
            d = np.zeros_like(d)
            break
        if loss > _LITTLE_GAIN * former and (foreseen > former / 4 or loss < _LITTLE * begun):
            break
    return Solved(*system.split(theta), before, terms, loss, number, d, size)


def newton(system: System, theta: Array, *, steps: int) -> Solved:
    """Return the end of steps of Gauss–Newton from θ, each halved until the next would be smaller.

    The next one is J⁺ r with the old J, and its size is relative to each component of u. So neither
    units nor a stiff equation among others matter (Deuflhard, Newton Methods for Nonlinear
    Problems, 2011, §4.3). Of one window without unknowns, which has about as many rows as columns.
    A size of 0 at the end: it begins too far from a solution (local).
    """
    terms, number, size, d = system.linearized(theta), 0, 1.0, np.zeros_like(theta)
    before, m = [term.residuals for term in terms], system.outputs
    while number < steps:
        sizes = np.abs(theta.reshape(-1, m)).max(axis=0)
        scale = np.tile(np.maximum(sizes, _SMALL * sizes.max() + _SMALL), len(theta) // m)
        solve = pseudoinverse(system.dense(terms), scale)
        d = solve(flat(terms))
        length = float(np.linalg.norm(d / scale))
        for size in (1.0, 0.5, 0.25):
            moved = system.linearized(theta - size * d)
            after = float(np.linalg.norm(solve(flat(moved)) / scale))
            if after <= max((1 - size / 2) * length, _CONVERGED):
                break
        else:
            size = 0.0
            break
        theta, terms, number = theta - size * d, moved, number + 1
        if after <= _CONVERGED:
            d = np.zeros_like(d)
            break
    return Solved(*system.split(theta), before, terms, squares(terms), number, d, size)


def flat(terms: Sequence[Linearized]) -> Array:
    """Return √w r of all terms, [N] (local)."""
    return np.concatenate([term.residuals.ravel() for term in terms])


def squares(terms: Sequence[Linearized]) -> float:
    """Return Σ |√w r|² over terms (local)."""
    return float(sum(np.vdot(term.residuals, term.residuals) for term in terms))
