"""Where windows of polynomials need more: a higher degree, or cells that are divided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.equations import Equations
from sciml_par.training.solving.cell_points import cell_of
from sciml_par.training.solving.polynomial_stage import MISSED, Stage
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

DEGREES = {1: range(12, 25, 4), 2: range(10, 19, 4), 3: range(6, 9, 2)}
"""Of windows, by dimension."""
_LARGE, _TAIL = 0.2, 0.2
"""Cells with more than this share of the largest residual need more, along axes in which the
highest coefficients are more than this share of the largest ones."""
_MANY, _ROUGH = 0.5, 0.03
"""The share of rough cells from which cells are divided; and of a rough cell, the coefficients of
the highest degree in relation to the ones of half of it."""
_AT_END, _CLOSE = 0.9, 0.2
"""Of the residual beyond the middle, from which a break is close to that end; and where."""


def refined(stage: Stage, *, smooth: bool) -> tuple[list[Array], int]:
    """Return breaks and degree of the next windows (local).

    The degree rises if u is `smooth` as far as is known, and coefficients fall fast with the degree
    in most cells of large residuals. Otherwise these cells are divided along the axes that need
    it: in the middle, or close to the end near which the residual is, as of a corner or a layer.
    """
    cells, degree, exponents = stage.model.cells, stage.degree, stage.model.exponents
    d = exponents.shape[1]
    noisy = statistical_terms(stage.problem)
    x, squares = _squares_at_points(stage.unseen, stage.residuals, noisy)
    of_points = np.maximum(cell_of(cells, x), 0)
    residual = np.bincount(of_points, squares, len(cells.kept))
    large = residual >= _LARGE**2 * residual.max()
    total, c = exponents.sum(axis=1), np.abs(stage.steps.c).max(axis=2)[:, : len(exponents)]
    top = c[:, total >= degree - 1].max(axis=1)
    rough = large & (top >= _ROUGH * c[:, np.abs(total - degree / 2) <= 1].max(axis=1))
    if stage.misses:
        own, at_own = _squares_at_points(stage.system.equations, stage.steps.residuals, noisy)
        seen = np.bincount(np.maximum(cell_of(cells, own), 0), at_own, len(cells.kept))
        missing = large & (residual > MISSED * seen)
        rough, smooth = rough | missing, smooth and not missing.any()
    higher = [more for more in DEGREES[d] if more > degree]
    if smooth and higher and not np.count_nonzero(rough) > _MANY * np.count_nonzero(large):
        return [np.asarray(b) for b in cells.breaks], higher[0]
    rough = rough if rough.any() else large
    tails = [c[:, exponents[:, axis] >= degree - 1].max(axis=1) for axis in range(d)]
    needed = [rough & (tail >= _TAIL * np.max(tails, axis=0)) for tail in tails]
    return [_divided(cells, a, needed[a], of_points, x[:, a], squares) for a in range(d)], degree


def _divided(
    cells: Any, axis: int, needed: Array, of_points: Array, x: Array, squares: Array
) -> Array:
    """Return the breaks of an axis and those that divide cells: needed [K], x [n], squares [n]."""
    place, b = np.unravel_index(cells.kept, cells.shape)[axis], np.asarray(cells.breaks[axis])
    # The part of the residual beyond the middle, of all cells that a break divides.
    middle = ((b[1:] + b[:-1]) / 2)[place]
    chosen = needed[of_points]
    beyond = chosen & (x > middle[of_points])
    total, upper = (
        np.bincount(place[of_points[at]], squares[at], len(b) - 1) for at in (chosen, beyond)
    )
    inside = np.unique(place[needed])
    share = upper[inside] / np.maximum(total[inside], np.finfo(np.float64).tiny)
    at = np.where(share > _AT_END, 1 - _CLOSE, np.where(share < 1 - _AT_END, _CLOSE, 0.5))
    return np.sort(np.concatenate([b, b[inside] + at * np.diff(b)[inside]]))


def _squares_at_points(
    equations: Equations, residuals: Sequence[Array], noisy: Collection[str]
) -> tuple[Array, Array]:
    """Return the points of all terms but noisy ones and sums, and squares of residuals there."""
    pairs = [(rows, r) for rows, r in zip(equations.rows, residuals, strict=True) if not rows.sums]
    kept = [(rows.arrays[0].numpy(), r) for rows, r in pairs if rows.term.name not in noisy]
    squares = [np.sum(np.square(r), axis=0) for _, r in kept]
    return np.concatenate([x for x, _ in kept]), np.concatenate(squares)
