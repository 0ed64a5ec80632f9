"""Residuals and their derivatives by the output layers of windows, of this rank's points.

A residual depends on the jets z_q of u at its points; see `sciml_par.assembly.equations`. With the
columns φ_q of a window k, the same quantities of what its output layer C_k multiplies,

    z_q = Σ_k C_kᵀ φ_kq        ∂r_i/∂C_k[a, b] = Σ_q φ_kq[a, i] ∂r_i/∂z_qb[i]

where the columns are computed window by window, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.algebra.banded import Block
from sciml_par.assembly.equations import Asked, Equations, Linearized, NotByJetsError, Rows
from sciml_par.assembly.system import add_products
from sciml_par.errors import InputError
from sciml_par.training.members.stack import Stack
from sciml_par.training.points.feed import Batch
from sciml_par.training.windows.columns import Columns

Array = npt.NDArray[np.float64]
Jets = list[list[Any]]

_HIGHEST = 2
"""The order of the derivatives that windows of random features have."""


@dataclass(frozen=True)
class WindowRows:
    """√w r [N] and J of this rank's points, by unknowns [N, q] and by windows.

    blocks : by the number of a window, its rows, and their derivatives by its c weights.
    """

    residuals: Array
    blocks: dict[int, Block]
    by_unknowns: Array


@contextmanager
def _with_advice() -> Iterator[None]:
    """Refuse residuals that are no functions of the jets at single points, as `train` does."""
    try:
        yield
    except NotByJetsError as refusal:
        raise InputError(
            f"LeastSquares with Windows: {refusal}, so that its derivatives are not "
            f"block-sparse. Take optimizer=LevenbergMarquardt(), or impose it at single points."
        ) from None


class RowsOfWindows:
    """Computes `WindowRows` of one training.

    base : a model in windows that the network is added to; None for the network alone.
    """

    def __init__(self, stack: Stack, base: Any = None) -> None:
        self._stack, self._asked = stack, dict[str, Asked]()
        self._columns = Columns(stack.network.model)
        self._base: list[tuple[Columns, Array]] = []
        if base is not None:
            self._base = [(Columns(base), _joined(*map(np.asarray, base.linear_variables)))]

    @_with_advice()
    def rows(self, theta: Array, batch: Batch) -> WindowRows:
        """Return r and J at θ: [p] (local)."""
        equations, jets, p = self._at(theta, batch)
        terms, done = equations.linearized(jets, p), 0
        parts: dict[int, list[Block]] = {}
        for rows, term in zip(equations.rows, terms, strict=True):
            bad, x = ~np.isfinite(term.residuals).all(axis=0), rows.arrays[0].numpy()
            if bad.any():
                place = ", ".join(f"{v:.3g}" for v in x.reshape(len(x), -1)[np.argmax(bad)])
                raise InputError(
                    f"LeastSquares with Windows: the term {rows.term.name!r} is not finite at "
                    f"{bad.sum()} of {len(x)} points, such as ({place})."
                )
            for k, block in self._blocks(rows, term):
                parts.setdefault(k, []).append(Block(done + block.rows, block.columns))
            done += term.residuals.size
        by_unknowns = [each.by_unknowns.reshape(len(p), each.residuals.size).T for each in terms]
        return WindowRows(
            np.concatenate([np.empty(0), *(each.residuals.ravel() for each in terms)]),
            {k: _together(blocks) for k, blocks in sorted(parts.items())},
            np.vstack([np.empty((0, len(p))), *by_unknowns]),
        )

    def terms(self, theta: Array, batch: Batch) -> Array:
        """Return the terms of the loss at θ: [p] over this rank's points, [T] (local)."""
        found = dict.fromkeys([term.name for term in self._stack.terms], 0.0)
        for rows, r in self._residuals(theta, batch):
            found[rows.term.name] = float(np.vdot(r, r))
        return np.array(list(found.values()))

    def squares(self, theta: Array, batch: Batch) -> Iterator[tuple[Array, Array]]:
        """Return this rank's points of each term, [n, d], and w |r|² there, [n] (local)."""
        for rows, r in self._residuals(theta, batch):
            yield rows.arrays[0].numpy(), np.sum(r**2, axis=0)

    @_with_advice()
    def _residuals(self, theta: Array, batch: Batch) -> Iterator[tuple[Rows, Array]]:
        equations, jets, p = self._at(theta, batch)
        return zip(equations.rows, equations.residuals(jets, p), strict=True)

    def _at(self, theta: Array, batch: Batch) -> tuple[Equations, Jets, Array]:
        """Return the terms that have points on this rank, jets at their requests, and unknowns."""
        equations, layout = self._equations(batch), self._stack.layout
        parts = np.split(theta, np.cumsum(layout.sizes)[:-1])
        weights = _joined(*(parts[i].reshape(layout.shapes[i]) for i in layout.linear or ()))
        models = [(self._columns, weights), *self._base]
        jets = [
            [sum(columns.jets(layers, request) for columns, layers in models) for request in asked]
            for asked in (rows.requests for rows in equations.rows)
        ]
        return equations, jets, theta[len(theta) - layout.size_of_unknowns :]

    def _equations(self, batch: Batch) -> Equations:
        pairs = zip(self._stack.terms, batch, strict=True)
        some = [(term, rows) for term, rows in pairs if len(rows.arrays[0])]
        factors = [
            np.sqrt(np.broadcast_to(np.asarray(rows.weights, np.float64), len(rows.arrays[0])))
            for _, rows in some
        ]
        equations = Equations(
            self._stack.problem,
            [rows.arrays for _, rows in some],
            factors,
            self._asked,
            terms=[term for term, _ in some],
            probed=None,
        )
        if equations.order > _HIGHEST:
            raise InputError(
                f"LeastSquares with Windows: a residual asks for derivatives of order "
                f"{equations.order}, and its windows have those of order two. Take a network "
                f"without Windows, or make the equation a system, with ∂u/∂x as a further "
                f"component of outputs=."
            )
        return equations

    def _blocks(self, rows: Rows, term: Linearized) -> Iterator[tuple[int, Block]]:
        """Yield the derivatives of a term by the weights of each window that has points of it."""
        parts: dict[int, list[Any]] = {}
        for request, slopes in zip(rows.requests, term.by_jets, strict=True):
            used = np.any(slopes != 0.0, axis=(0, 2, 3))  # of the Q quantities
            windows = self._columns.partition.points_of_windows(request.x)
            for window, points in windows if used.any() else ():
                parts.setdefault(window, []).append((request, slopes[:, used], used, points))
        k, n = term.residuals.shape
        for window, asked in parts.items():
            all_points = reduce(np.union1d, (points for *_, points in asked))
            m = self._stack.problem.network_outputs
            block = np.zeros((self._columns.width(window), m, k, len(all_points)))
            for request, slopes, used, points in asked:
                for some, jets in self._columns.at(window, request, points, used):
                    at = np.searchsorted(all_points, some)
                    add_products(block, at, slopes[..., some], jets)
            numbers = (np.arange(k)[:, None] * n + all_points).ravel()
            yield window, Block(numbers, block.reshape(-1, len(numbers)))


def _joined(kernel: Array, bias: Array) -> Array:
    """Return output layers [K, w, m] with their biases [K, m] below, [K, w + 1, m]."""
    return np.concatenate([kernel, bias.reshape(len(kernel), 1, -1)], axis=1)


def _together(blocks: list[Block]) -> Block:
    """Return the rows of one window in all terms."""
    return Block(
        np.concatenate([block.rows for block in blocks]),
        np.concatenate([block.columns for block in blocks], axis=1),
    )
