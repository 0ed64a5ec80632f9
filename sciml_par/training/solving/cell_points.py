"""Points of the terms of a problem, with their weights, for polynomials on a box or in cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from sciml_par.assembly.asked import Asked
from sciml_par.assembly.equations import Equations
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.problem import Problem
from sciml_par.training.solving.corners import Corner, corners_and_holes
from sciml_par.training.solving.holes import Hole
from sciml_par.training.solving.initial_layers import InitialLayer, initial_layers_of
from sciml_par.training.solving.principal_part import principal_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_CANDIDATES = 40_000
"""Points that are drawn for a condition in cells, of which each cell keeps as many as it needs,
where surfaces of the domain do not tell its points."""
_SAME_DIRECTION = 0.9
_DENSER, _BESIDE = (2, 3), 0.25
"""Dimensions in which points are denser at the sides; and of angles, in units of those between."""
_CUT, _INSIDE = (1.25, 1.6, 2.0), 1.2
"""So many times the points along each axis has a cell that the boundary cuts: the first number with
which so many times the points of a whole cell lie inside, or the last."""
_FEWEST, _LEAST_SIZE = 16, 1e-6
_FEW_AT_CORNER, _AT_CORNER = 32, 8
_NARROW, _IN_STRIP = 0.12, 6
"""Of a cell, the part beside a smaller one in which weights change, with points of its own; and the
fewest of them across it."""


@dataclass(frozen=True)
class PointsOfTerms:
    """Makes equations at points of all terms of a problem.

    Attributes
    ----------
    problem : with the weights of its terms.
    seed : of scattered points.
    asked : what their residuals ask for, as far as it is known; see `Equations`.
    at_corners, in_layers : whether points are denser near corners of the domain, and of space and
        time, from which layers grow.
    products : whether functions of layers are multiplied with each other.
    unknowns : their parameters with which layers grow; by default those of the start.
    """

    problem: Problem
    seed: int
    asked: dict[str, Asked] = field(default_factory=dict)
    at_corners: bool = False
    in_layers: bool = False
    products: bool = False
    unknowns: tuple[float, ...] | None = None

    def scattered(self, interior: int, draw: int, *, dense: bool = False) -> Equations:
        """Use Sobol's points, and half as many for each condition (local).

        draw : others for each number.
        dense : in two and three dimensions interior points are denser at the sides of the box, by
            which they weigh less: with even ones, polynomials of high degrees fit these and
            oscillate at the sides (Cohen, Migliorati 2017, SMAI J. Comput. Math. 3).
        """
        found = list[tuple[Any, Array]]()
        x = self.problem.domain.sample(interior, seed=self.seed + 2 * draw, method="sobol")
        shares = np.full(len(x), 1 / len(x))
        if dense:
            x, shares = self._denser(interior, draw) or (x, shares)
        x, shares = self._at_corners(x, shares, draw)
        for residual, term in self._equations:
            found.append((residual.payload(x), np.sqrt(term.weight * shares)))
        for k, (condition, term) in enumerate(self.problem.terms_of_conditions):
            n = max(interior // 2, 100)
            arrays = (
                term.points(n)
                if self.given(condition)
                else condition.completed(self._drawn(k, condition, n, draw), self.problem.domain)
            )
            rows = arrays, self._even(arrays[0], term)
            found.append(self._near_corners(rows, condition, term, draw))
        of_terms, of_rows = zip(*found, strict=True)
        return Equations(self.problem, of_terms, of_rows, self.asked, sums=True)

    def in_cells(
        self, cells: Cells, along: tuple[int, ...], *, draw: int = 0, even: bool = True
    ) -> Equations:
        """Use Gauss' points of each cell, as many along each axis, and those of conditions.

        If not `even`, points at random places in their place. The equations of a cell weigh as its
        volume times its squared size relative to the largest cell, and conditions as the inverse
        of the size, without which the sum of squares is infinite at a corner. In three dimensions
        the size is the second largest side, so that it falls towards an edge (local).
        """
        low, high = cells.corners()
        size = np.sort((high - low) / (high - low).max(axis=0), axis=1)[:, -max(len(along) - 1, 1)]
        # In √τ a polynomial in τ has twice the degree.
        within = (*along[:-1], 2 * along[-1]) if self.layered else along
        found = []
        x, volumes, of_x = self._interior(cells, within, None if even else draw)
        x, shares = self._at_corners(x, volumes / volumes.sum(), draw)
        of_x = np.append(of_x, np.maximum(cell_of(cells, x[len(of_x) :]), 0))
        for residual, term in self._equations:
            factors = np.sqrt(term.weight * shares) * size[of_x]
            found.append((residual.payload(x), factors))
        most = 2 * max(along) * len(along) ** 2
        for k, (condition, term) in enumerate(self.problem.terms_of_conditions):
            if self.given(condition):
                arrays = term.points(_CANDIDATES)
                rows = arrays, self._even(arrays[0], term)
            else:
                # Windows of several cells need more, where those of two sizes overlap.
                gauss = along if even and len(low) == 1 else ()
                drawn = self._on_surfaces(k, condition, cells, gauss, most, draw)
                drawn = drawn or self._thinned(k, condition, cells, most, draw)
                x, normals, shares, of_points = drawn
                arrays = condition.completed((x, normals), self.problem.domain)
                factors = np.sqrt(term.weight * shares / np.maximum(size[of_points], _LEAST_SIZE))
                rows = self._near_corners((arrays, factors), condition, term, draw, (cells, size))
            found.append(rows)
        of_terms, of_rows = zip(*found, strict=True)
        return Equations(self.problem, of_terms, of_rows, self.asked, sums=True)

    def _denser(self, n: int, draw: int) -> tuple[Array, Array] | None:
        """Return n points of the density Π 1/√(z − z²) on the unit cube, and their shares.

        None in other dimensions, and in a small part of the box.
        """
        domain, d = self.problem.domain, self.problem.domain.dimension
        if d not in _DENSER:
            return None
        sobol = qmc.Sobol(d, rng=np.random.default_rng((self.seed, draw)))
        beside = _BESIDE * n ** (-1 / d)  # not at the sides, where equations may be singular
        z = beside + (1 - 2 * beside) * sobol.random_base2(2 + max(n - 1, 1).bit_length())
        angles = np.pi * z
        x = domain.lower + (domain.upper - domain.lower) * np.sin(angles / 2) ** 2
        inside = np.flatnonzero(domain._within(x))[:n]
        shares = np.prod(np.sin(angles[inside]), axis=1)
        return (x[inside], shares / shares.sum()) if len(inside) == n else None

    def _at_corners(self, x: Array, shares: Array, draw: int) -> tuple[Array, Array]:
        """Return points with further ones that are denser near corners, and all shares."""
        found = [place.inside(*of) for place, of in self._places(len(x), draw)]
        points, parts = zip((x, shares), *found, strict=True)
        every = np.concatenate(parts)
        return np.concatenate(points), every / every.sum()

    def _near_corners(
        self, rows: Any, condition: Any, term: Any, draw: int, of_cells: Any = None
    ) -> tuple[tuple[Array, ...], Array]:
        """Return arrays and factors of a condition with points that are denser near corners.

        of_cells : cells, and sizes by which the weights of points in them are divided, [K].
        """
        arrays, factors = rows
        if self.given(condition) or not condition.on_boundary or not self.corners:
            return arrays, factors
        domain, places = self.problem.domain, self._places(len(factors), draw)
        found = [place.on_sides(*of) for place, of in places]
        x, normals, shares = (np.concatenate(each) for each in zip(*found, strict=True))
        holds = domain.contains(x) & domain.on_boundary(x)
        holds &= condition.holds_at(x, domain, normals)
        faces = domain._time_faces[0] if isinstance(condition, Initial) else condition.on
        if isinstance(faces, tuple):  # points are so close to the corner as to lie on both sides
            holds &= domain.on_faces(x, faces, normals)
        if not holds.any():
            return arrays, factors
        weights = term.weight * shares[holds]
        if of_cells is not None:
            cells, sizes = of_cells
            weights /= np.maximum(sizes[np.maximum(cell_of(cells, x[holds]), 0)], _LEAST_SIZE)
        more = condition.completed((x[holds], normals[holds]), domain)
        together = tuple(np.concatenate(pair) for pair in zip(arrays, more, strict=True))
        every = np.concatenate([factors, np.sqrt(weights)])
        return together, every / math.sqrt(1 + shares[holds].sum())

    def _places(self, whole: int, draw: int) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Yield each corner, hole and layer with the domain, the number of its points and a seed.

        whole : the number of points in the whole domain.
        """
        holes = sum(isinstance(each, Hole) for each in self.corners)
        for k, place in enumerate(self.corners):
            share = 1 + holes if isinstance(place, Hole) else _AT_CORNER
            count = max(_FEW_AT_CORNER, whole // share)
            yield place, (self.problem.domain, count, (self.seed, draw, k))

    @cached_property
    def corners(self) -> list[Corner | Hole | InitialLayer]:
        """The corners, holes and layers whose functions are used."""
        of = self.problem, self._principal
        layers = initial_layers_of(*of, products=self.products) if self.in_layers else []
        return [*layers, *(corners_and_holes(*of) if self.at_corners else [])]

    @property
    def on_box(self) -> list[Corner | Hole | InitialLayer]:
        """The corners whose functions can be used on the whole box.

        Others jump in the domain, where it goes on behind their corners.
        """
        return [each for each in self.corners if each.reach == math.inf]

    @property
    def layered(self) -> bool:
        """Whether functions of layers from the initial time are used."""
        return self.in_layers and any(isinstance(each, InitialLayer) for each in self.corners)

    def _principal(self, x: Array) -> list[tuple[Array, Array]]:
        """Return `principal_of` the equations at x: [n, d]."""
        pairs = self._equations
        arrays = [residual.payload(x) for residual, _ in pairs]
        of = self.problem, arrays, [np.ones(len(x))] * len(pairs), self.asked
        equations = Equations(*of, terms=[term for _, term in pairs])
        return principal_of(equations, None if self.unknowns is None else np.array(self.unknowns))

    def given(self, condition: Any) -> bool:
        """Return whether points of a condition are given, as of observations."""
        own = type(condition).points is not Condition.points
        return own or condition.given(self.problem.domain) is not None

    def _drawn(self, k: int, condition: Any, n: int, draw: int) -> tuple[Array, Array]:
        """Return about n points at which a condition holds, and normals."""
        domain = self.problem.domain
        while True:
            rng = np.random.default_rng((self.seed, draw, k))
            points, normals = condition.draw(domain, n, method="sobol", rng=rng)
            holds = condition.holds_at(points, domain, normals)
            # Of a condition on a small part of the boundary; in 1-D there are two points in all.
            if np.count_nonzero(holds) >= _FEWEST or domain.dimension == 1 or n >= _CANDIDATES:
                return points[holds], normals[holds]
            n = min(8 * n, _CANDIDATES)

    def _on_surfaces(
        self, k: int, condition: Any, cells: Cells, along: tuple[int, ...], most: int, draw: int
    ) -> tuple[Array, Array, Array, Integers] | None:
        """Project points of each cell onto the surfaces of a condition; None if there are others.

        Cells of any size have so many points, normals, shares of the measure, and cells. A surface
        takes V / Σ_i |n_i| h_i of a cell with sides h if all points are projected into the cell.
        A whole side has Gauss' points, if their numbers along the axes are given.
        """
        domain = self.problem.domain
        if domain.dimension == 1 or not condition.on_boundary:
            return None
        rng = np.random.default_rng((self.seed, draw, k))
        # At least one point on each part of the boundary, also where the condition does not hold.
        drawn, outward = condition.draw(domain, _FEWEST, method="sobol", rng=rng)
        tolerance = 1e-6 * domain.extent
        surfaces, known = [], np.zeros(len(drawn), np.bool_)
        for surface in domain.surfaces():
            at = surface.project(drawn)
            same = np.all(np.abs(at.x - drawn) <= tolerance, axis=1)
            same &= at.kept & (np.sum(at.normals * outward, axis=1) > _SAME_DIRECTION)
            known |= same
            surfaces += [surface] if same.any() else []
        levels = [surface.levels(surface.names[0]) for surface in surfaces]
        # Triangles and clouds of points know no formula, and are slow to project onto.
        if not known.all() or None in levels:
            return None
        sobol = qmc.Sobol(domain.dimension, rng=rng).random(1 << (most - 1).bit_length())
        scattered = sobol, np.full(len(sobol), 1 / len(sobol))
        low, high = cells.corners()
        found = []
        for surface, of_it in zip(surfaces, levels, strict=True):
            curved = any(level.square.any() for level in of_it or ())
            middle = (low + high) / 2
            away, far = (
                np.linalg.norm(v, axis=1) for v in (surface.project(middle).x - middle, high - low)
            )
            for number in np.flatnonzero((away <= far) | curved):
                a, b = low[number], high[number]
                onto = np.abs(surface.project((a + b)[None] / 2).normals[0])
                flat = along and not curved and onto.max() > 1 - 1e-12
                rules = [_gauss(along, int(onto.argmax())), scattered] if flat else [scattered]
                for rule in rules:
                    from_x = a + (b - a) * rule[0]
                    at = surface.project(from_x)
                    margin = 1e-9 * (b - a) + 1e-15 * domain.extent
                    inside = at.kept & np.all((at.x >= a - margin) & (at.x <= b + margin), axis=1)
                    # Beyond an end of a face, points are projected onto the end alone.
                    off = from_x - at.x
                    off -= np.sum(off * at.normals, axis=1, keepdims=True) * at.normals
                    inside &= curved | np.all(np.abs(off) <= 1e-6 * (b - a), axis=1)
                    if inside.any():
                        of = at.x[inside], domain, at.normals[inside]
                        inside[inside] = condition.holds_at(*of)
                    if inside.all():
                        break
                x, normals, shares = at.x[inside], at.normals[inside], rule[1][inside]
                h = (b - a) / domain.extent
                across = np.abs(normals * domain.extent)
                across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
                shares = np.prod(h) / (across @ h) * shares
                found.append((x, normals, shares, np.full(len(x), number)))
        x, normals, shares, of_points = (np.concatenate(each) for each in zip(*found, strict=True))
        return x, normals, shares / shares.sum(), of_points

    def _thinned(
        self, k: int, condition: Any, cells: Cells, most: int, draw: int
    ) -> tuple[Array, Array, Array, Integers]:
        """Draw many points and keep at most so many of each cell; see `_on_surfaces`."""
        x, normals = self._drawn(k, condition, _CANDIDATES, draw)
        of_points = cell_of(cells, x)
        # Points are drawn face by face: without another order, the first of a cell lie on one face.
        order = np.random.default_rng(0).permutation(len(x))
        order = order[np.argsort(of_points[order], kind="stable")]
        _, first, counts = np.unique(of_points[order], return_index=True, return_counts=True)
        taken = np.minimum(counts, most)
        rows = np.concatenate([order[a : a + n] for a, n in zip(first, taken, strict=True)])
        shares = np.repeat(counts / len(x) / taken, taken)
        return x[rows], normals[rows], shares, np.maximum(of_points[rows], 0)

    @cached_property
    def _equations(self) -> list[tuple[Any, Any]]:
        return list(zip(self.problem.residuals, self.problem.terms, strict=False))

    def _even(self, points: Array, term: Any) -> Array:
        return np.full(len(points), math.sqrt(term.weight / max(len(points), 1)))

    def _interior(
        self, cells: Cells, along: tuple[int, ...], draw: int | None
    ) -> tuple[Array, Array, Integers]:
        """Return interior points, their shares of the volume, and their cells."""
        low, high = cells.corners()
        rng = None if draw is None else np.random.default_rng((self.seed, 1 + draw))
        every, inside = self._of_cells(low, high, along, rng)
        share = inside.mean(axis=1)
        cut = np.flatnonzero((share < 1) & (share > 0))
        whole = np.flatnonzero(share == 1)
        found = [(every[0][whole], every[1][whole], inside[whole], whole)]
        for axis, strip_low, strip_high, numbers in _narrow_strips(cells):
            fewer = tuple(max(_IN_STRIP, n // 2) if i == axis else n for i, n in enumerate(along))
            parts, within = self._of_cells(strip_low, strip_high, fewer, rng)
            found.append((*parts, within, numbers))
        enough = np.power(_CUT, len(along)) * share[cut, None] >= _INSIDE
        chosen = np.where(enough.any(axis=1), enough.argmax(axis=1), len(_CUT) - 1)
        for place in np.unique(chosen):
            of_place = cut[chosen == place]
            parts, within = self._of_cells(
                low[of_place], high[of_place], _times(along, _CUT[place]), rng
            )
            found.append((*parts, within, of_place))
        x = np.concatenate([p[i] for p, _, i, _ in found])
        weights = np.concatenate([w[i] for _, w, i, _ in found])
        cells_of = [np.repeat(cell, i.shape[1])[i.ravel()] for _, _, i, cell in found]
        return x, weights, np.concatenate(cells_of)

    def _of_cells(
        self, low: Array, high: Array, along: tuple[int, ...], rng: Any
    ) -> tuple[tuple[Array, Array], npt.NDArray[np.bool_]]:
        """Return points [K, n, d] and weights [K, n] of cells, and which lie in the domain."""
        if rng is None:
            unit, w = _gauss(along)
            if self.layered:  # those of √τ
                w, unit[:, -1] = 2 * unit[:, -1] * w, unit[:, -1] ** 2
            z = 2 * unit - 1
        else:
            w = np.ones(math.prod(along))
            z = rng.uniform(-1, 1, (len(low), len(w), len(along)))
        x = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * z
        volumes = np.prod(high - low, axis=1)[:, None] * w
        # Without the margin of `contains`: cells beyond a side have no points of the domain.
        inside = self.problem.domain._within(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
        return (x, volumes), inside


def outside(problem: Problem, cells: Cells, along: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of cells in which no point of the domain lies (local)."""
    finer = _times(along, _CUT[-1])
    _, inside = PointsOfTerms(problem, 0)._of_cells(*cells.corners(), finer, None)
    return tuple(int(k) for k in cells.kept[~inside.any(axis=1)])


def _gauss(along: tuple[int, ...], across: int = -1) -> tuple[Array, Array]:
    """Return Gauss' points of the unit cube, or halfway along one axis, and their shares."""
    along = tuple(1 if i == across else n for i, n in enumerate(along))
    nodes, weights = zip(*map(np.polynomial.legendre.leggauss, along), strict=True)
    z = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(along))
    w = np.prod(np.meshgrid(*weights, indexing="ij"), axis=0).ravel()
    return (1 + z) / 2, w / w.sum()


def _times(along: tuple[int, ...], factor: float) -> tuple[int, ...]:
    return tuple(math.ceil(factor * each) for each in along)


def _narrow_strips(cells: Cells) -> Iterator[tuple[int, Array, Array, Integers]]:
    """Yield, by axis and side, the parts of cells beside much smaller ones, where weights change.

    Corners of the parts, [K, d] each, and the numbers of their cells.
    """
    low, high = cells.corners()
    outer_low, outer_high = cells.supports()
    for axis in range(low.shape[1]):
        h = (high - low)[:, axis]
        before, behind = (low - outer_low)[:, axis], (outer_high - high)[:, axis]
        for width, at_low in ((before, True), (behind, False)):
            numbers = np.flatnonzero((width > 0) & (width < _NARROW * h))
            if len(numbers):
                a, b = low[numbers].copy(), high[numbers].copy()
                if at_low:
                    b[:, axis] = a[:, axis] + width[numbers]
                else:
                    a[:, axis] = b[:, axis] - width[numbers]
                yield axis, a, b, numbers


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
