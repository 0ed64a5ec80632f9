"""The least-squares problem of equations and of columns: J[i, j] = Σ_q ∂r_i/∂z_q φ_jq(x_i)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.algebra.banded import Block, by_blocks, common_rows
from sciml_par.algebra.dense import by_normal_equations, triangle
from sciml_par.assembly.columns import columns_at
from sciml_par.assembly.equations import Equations, Request

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LEAST_WEIGHT = 1e-3
_LITTLE_GAIN, _AS_FORESEEN, _LEAST_SIZE = 0.5, 1.02, 1e-3
"""A whole step that leaves more than this share of the loss is the last; the shortest step."""


class System:
    """min_c Σ |√w r(u_c)|² over the coefficients c: [K, M, m] of a model, at fixed points.

    Parameters
    ----------
    equations : at their points.
    model : with `columns` and `coefficients`, such as `sciml_par.networks.Polynomials`.
    base : the jets of a known field that is added to the columns' one, [Q, m, n] for each request
        of each term; by default zero.
    """

    def __init__(
        self, equations: Equations, model: Any, base: Sequence[Sequence[Array]] | None = None
    ) -> None:
        self.equations, self.model, self.base = equations, model, base
        self.columns = [
            [list(columns_at(model, request)) for request in rows.requests]
            for rows in equations.rows
        ]
        self.windows, self.width, self.outputs = map(int, model.coefficients.shape)

    def jets(self, c: Array) -> list[list[Array]]:
        """Return the jets of u at the requests of each term, [Q, m, n] each (local)."""
        found = []
        for t, (rows, of_term) in enumerate(zip(self.equations.rows, self.columns, strict=True)):
            row = []
            for e, (request, windows) in enumerate(zip(rows.requests, of_term, strict=True)):
                z = np.zeros((request.size, self.outputs, rows.points))
                for columns, own in zip(windows, c, strict=True):
                    z[:, :, columns.rows] += np.matmul(own.T, columns.jets)
                row.append(z if self.base is None else z + self.base[t][e])
            found.append(row)
        return found

    def residuals(self, c: Array) -> Array:
        """Return all rows at c, [N] (local)."""
        return _flat(self.equations.residuals(self.jets(c)))

    def linearized(self, c: Array) -> tuple[Array, list[list[Array]]]:
        """Return all rows at c, [N], and the slopes of the equations (local)."""
        r, slopes = self.equations.linearized(self.jets(c))
        return _flat(r), slopes

    def jacobian(self, slopes: Sequence[Sequence[Array]]) -> list[Block]:
        """Return the derivatives of the rows by the coefficients, window by window (local).

        The coefficients of a window are in the order [m, M].
        """
        return [self._block(window, slopes) for window in range(self.windows)]

    def step(self, r: Array, slopes: Sequence[Sequence[Array]]) -> tuple[Array, float]:
        """Return argmin_d |J d − r| in the shape of c, and the least |J d − r|² (local)."""
        blocks = self.jacobian(slopes)
        if self.windows == 1:
            (block,) = blocks
            found, left = by_normal_equations(block.columns, r[block.rows])
            parts = [found]
        else:
            parts, left = by_blocks(blocks, r, self._common)
        d: Array = np.stack([each.reshape(self.outputs, self.width).T for each in parts])
        return d, left

    def triangle(self, slopes: Sequence[Sequence[Array]]) -> Array:
        """Return R of the QR factorization of J of one window, [m M, m M] (local)."""
        (block,) = self.jacobian(slopes)
        return triangle(block.columns)

    def values(self, x: Array) -> Array:
        """Return the columns' values at x of each component: [n, d] -> [n m, m M], one window."""
        (columns,) = columns_at(self.model, Request(x, np.zeros((0, x.shape[1], x.shape[1]))))
        return np.kron(columns.jets[0].T[:, None], np.eye(self.outputs)[:, :, None]).reshape(
            len(x) * self.outputs, -1
        )

    def fitted(self, function: Callable[[Array], Array]) -> Array:
        """Return coefficients of a function x: [n, d] -> [n, m], window by window (local).

        Since the weights of windows add up to one, each is fitted alone.
        """
        found = np.zeros((self.windows, self.width, self.outputs))
        x = self.equations.rows[0].requests[0].x
        u = function(x)
        for c, columns in zip(found, self.columns[0][0], strict=True):
            weight, rows = columns.jets[0, 0], columns.rows
            inside = weight > _LEAST_WEIGHT
            values = (columns.jets[0] / weight)[:, inside]
            c[...] = np.linalg.lstsq(values.T, u[rows[inside]], 1e-10)[0]
        return found

    @cached_property
    def _rows(self) -> list[list[tuple[Integers, Integers]]]:
        """Of each window and term: the points that it covers, and the numbers of their rows."""
        found = []
        for window in range(self.windows):
            of_window, first = [], 0
            for rows, of_term in zip(self.equations.rows, self.columns, strict=True):
                points = of_term[0][window].rows
                for others in of_term[1:]:
                    points = np.union1d(points, others[window].rows)
                numbers = [first + j * rows.points + points for j in range(rows.components)]
                of_window.append((points, np.concatenate(numbers)))
                first += rows.components * rows.points
            found.append(of_window)
        return found

    @cached_property
    def _common(self) -> dict[tuple[int, int], tuple[Integers, Integers]]:
        return common_rows([np.concatenate([n for _, n in each]) for each in self._rows])

    def _block(self, window: int, slopes: Sequence[Sequence[Array]]) -> Block:
        parts, m, width = [], self.outputs, self.width
        for of_term, of_slopes, (points, _) in zip(
            self.columns, slopes, self._rows[window], strict=True
        ):
            k = len(of_slopes[0])
            block = np.zeros((m, width, k, len(points)))
            for columns, slope in zip((each[window] for each in of_term), of_slopes, strict=True):
                whole = len(columns.rows) == len(points)
                at = slice(None) if whole else np.searchsorted(points, columns.rows)
                for j in range(k):
                    for b in range(m):
                        _add_products(
                            block[b, :, j], at, slope[j, :, b, columns.rows].T, columns.jets
                        )
            parts.append(block.reshape(m * width, -1))
        rows = np.concatenate([numbers for _, numbers in self._rows[window]])
        return Block(rows, np.concatenate(parts, axis=1))


def _add_products(block: Array, at: Any, factors: Array, jets: Array) -> None:
    """Add Σ_q f_q φ_q to some columns of a block: f [Q, n], φ [Q, M, n]."""
    for f, phi in zip(factors, jets, strict=True):
        if f.any():
            block[:, at] += phi * f


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([each.ravel() for each in parts])


@dataclass(frozen=True)
class Solved:
    """Coefficients after Gauss–Newton steps.

    Attributes
    ----------
    c : [K, M, m].
    loss : the sum of squares with them.
    steps : how many were made.
    direction, size : the last step, c − size · direction; a size of 0 was not made. A direction of
        zeros: the linear equations foresaw what the step found, and a further one is none.
    """

    c: Array
    loss: float
    steps: int
    direction: Array
    size: float


def gauss_newton(system: System, c: Array, *, steps: int) -> Solved:
    """Return c after steps of Gauss–Newton, each halved until the loss falls (local).

    They end where a step finds what the linear equations foresee, or where a whole step leaves more
    than half of the loss.
    """
    r, slopes = system.linearized(c)
    loss, size, d = float(r @ r), 1.0, np.zeros_like(c)
    for number in range(steps):
        (d, foreseen), size, before = system.step(r, slopes), 1.0, loss
        while size > _LEAST_SIZE:
            moved = c - size * d
            r, slopes = system.linearized(moved)
            loss = float(r @ r)
            if loss < before:
                break
            size /= 2
        else:
            return Solved(c, before, number, d, 0.0)
        c = moved
        if size == 1.0 and loss < _AS_FORESEEN * foreseen:  # a further step is none
            return Solved(c, loss, number + 1, np.zeros_like(d), size)
        if size == 1.0 and loss > _LITTLE_GAIN * before:
            return Solved(c, loss, number + 1, d, size)
    return Solved(c, loss, steps, d, size)
