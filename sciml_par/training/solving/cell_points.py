"""Points of the terms of a problem, with their weights, for polynomials on a box or in cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.equations import Equations
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_CANDIDATES = 40_000
"""Points that are drawn for a condition in cells, of which each cell keeps as many as it needs."""
_CUT = 2
"""As many times the points along each axis has a cell that the boundary cuts."""
_FEWEST, _LEAST_SIZE = 16, 1e-6


@dataclass(frozen=True)
class PointsOfTerms:
    """Makes equations at points of all terms of a problem.

    Attributes
    ----------
    problem : with the weights of its terms.
    seed : of scattered points.
    """

    problem: Problem
    seed: int

    def scattered(self, interior: int, *, draw: int) -> Equations:
        """Use Sobol's points, and half as many for each condition, all of equal weight (local).

        draw : others for each number.
        """
        x = self.problem.domain.sample(interior, seed=self.seed + 2 * draw, method="sobol")
        found = [(residual.payload(x), self._even(x, term)) for residual, term in self._equations]
        for k, (condition, term) in enumerate(self._conditions):
            arrays, _ = self._of_condition(k, condition, term, max(interior // 2, 100), draw)
            found.append((arrays, self._even(arrays[0], term)))
        return Equations(self.problem, *zip(*found, strict=True))

    def in_cells(self, cells: Cells, along: tuple[int, ...], *, draw: int = -1) -> Equations:
        """Use Gauss' points of each cell, as many along each axis, and those of conditions.

        With a `draw`, points at random places in their place. The equations of a cell weigh as its
        volume times its squared size relative to the largest cell, and conditions as the inverse
        of the size, without which the sum of squares is infinite at a corner (local).
        """
        low, high = cells.corners()
        size = ((high - low) / (high - low).max(axis=0)).min(axis=1)
        found = []
        x, volumes, of_x = self._interior(cells, along, draw)
        for residual, term in self._equations:
            factors = np.sqrt(term.weight * volumes / volumes.sum()) * size[of_x]
            found.append((residual.payload(x), factors))
        most = 2 * max(along) * len(along) ** 2
        for k, (condition, term) in enumerate(self._conditions):
            arrays, drawn = self._of_condition(k, condition, term, _CANDIDATES, draw + 1)
            factors = self._even(arrays[0], term)
            if drawn:
                kept, shares, of_points = _thinned(cells, arrays[0], most)
                arrays = tuple(each[kept] for each in arrays)
                factors = np.sqrt(term.weight * shares / np.maximum(size[of_points], _LEAST_SIZE))
            found.append((arrays, factors))
        return Equations(self.problem, *zip(*found, strict=True))

    def _of_condition(
        self, k: int, condition: Any, term: Any, n: int, draw: int
    ) -> tuple[tuple[Array, ...], bool]:
        """Return the arrays of about n points, or those that were given; whether they are drawn."""
        domain = self.problem.domain
        own = type(condition).points is not Condition.points  # as of observations
        if own or condition.given(domain) is not None:
            return term.points(n), False
        while True:
            rng = np.random.default_rng((self.seed, draw, k))
            points, normals = condition.draw(domain, n, method="sobol", rng=rng)
            holds = condition.holds_at(points, domain, normals)
            # Of a condition on a small part of the boundary; in 1-D there are two points in all.
            if np.count_nonzero(holds) >= _FEWEST or domain.dimension == 1 or n >= _CANDIDATES:
                break
            n = min(8 * n, _CANDIDATES)
        return condition.completed((points[holds], normals[holds]), domain), True

    @cached_property
    def _equations(self) -> list[tuple[Any, Any]]:
        return list(zip(self.problem.residuals, self.problem.terms, strict=False))

    @cached_property
    def _conditions(self) -> list[tuple[Any, Any]]:
        terms = self.problem.terms[len(self.problem.residuals) :]
        return list(zip(self.problem.conditions, terms, strict=True))

    def _even(self, points: Array, term: Any) -> Array:
        return np.full(len(points), math.sqrt(term.weight / max(len(points), 1)))

    def _interior(
        self, cells: Cells, along: tuple[int, ...], draw: int
    ) -> tuple[Array, Array, Integers]:
        """Return interior points, their shares of the volume, and their cells."""
        low, high = cells.corners()
        rng = np.random.default_rng((self.seed, 1 + max(draw, 0)))
        every, inside = self._of_cells(low, high, along, None if draw < 0 else rng)
        share = inside.mean(axis=1)
        cut = np.flatnonzero((share < 1) & (share > 0))
        whole = np.flatnonzero(share == 1)
        finer = tuple(_CUT * each for each in along)
        found = [(every[0][whole], every[1][whole], inside[whole], whole)]
        if len(cut):
            parts, within = self._of_cells(low[cut], high[cut], finer, None if draw < 0 else rng)
            found.append((*parts, within, cut))
        x = np.concatenate([p[i] for p, _, i, _ in found])
        weights = np.concatenate([w[i] for _, w, i, _ in found])
        numbers = [np.repeat(cell, i.shape[1])[i.ravel()] for _, _, i, cell in found]
        return x, weights, np.concatenate(numbers)

    def _of_cells(
        self, low: Array, high: Array, along: tuple[int, ...], rng: Any
    ) -> tuple[tuple[Array, Array], npt.NDArray[np.bool_]]:
        """Return points [K, n, d] and weights [K, n] of cells, and which lie in the domain."""
        if rng is None:
            rules = [np.polynomial.legendre.leggauss(each) for each in along]
            nodes, weights = zip(*rules, strict=True)
            z = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(along))
            w = np.prod(np.meshgrid(*weights, indexing="ij"), axis=0).ravel()
        else:
            w = np.ones(math.prod(along))
            z = rng.uniform(-1, 1, (len(low), len(w), len(along)))
        x = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * z
        volumes = np.prod(high - low, axis=1)[:, None] * w
        inside = self.problem.domain.contains(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
        return (x, volumes), inside


def outside(problem: Problem, cells: Cells, along: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of cells in which no point of the domain lies (local)."""
    finer = tuple(_CUT * each for each in along)
    _, inside = PointsOfTerms(problem, 0)._of_cells(*cells.corners(), finer, None)
    return tuple(int(k) for k in cells.kept[~inside.any(axis=1)])


def cell_of(cells: Cells, x: Array) -> Integers:
    """Return the place among the kept cells of each point, [n]; −1 in cells without a window."""
    places = [
        np.clip(np.searchsorted(each, x[:, axis], side="right") - 1, 0, len(each) - 2)
        for axis, each in enumerate(cells.breaks)
    ]
    index = np.full(int(np.prod(cells.shape)), -1)
    index[cells.kept] = np.arange(len(cells.kept))
    found: Integers = index[np.ravel_multi_index(places, cells.shape)]
    return found


def _thinned(cells: Cells, x: Array, most: int) -> tuple[Integers, Array, Integers]:
    """Return which points to keep, at most so many of each cell, their shares and cells."""
    of_points = cell_of(cells, x)
    order = np.argsort(of_points, kind="stable")
    numbers, first, counts = np.unique(of_points[order], return_index=True, return_counts=True)
    kept, shares = [], []
    for at, count in zip(first, counts, strict=True):
        chosen = order[at : at + min(count, most)]  # the first of a sequence fill the cell evenly
        kept.append(chosen)
        shares.append(np.full(len(chosen), count / len(x) / len(chosen)))
    rows = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    cells_of = np.maximum(of_points[rows], 0)
    return rows, np.concatenate(shares) if shares else np.zeros(0), cells_of
