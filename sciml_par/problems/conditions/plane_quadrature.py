"""Integrals over plane regions that are bounded by straight lines and ellipses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, combinations, pairwise

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.surface import Level

_FEWEST, _SAME = 8, 1e-9
"""Points along each axis of a part; and parts of the height that are none."""


def over_plane(domain: Domain, n: int) -> tuple[FloatArray, FloatArray] | None:
    """Return about n or more points x: [q, 2] and weights [q]; None for other boundaries (local).

    Gauss' points along y between the corners, and along x between the sides, so that the error
    falls exponentially with √n for a smooth integrand.
    """
    found = [surface.levels(surface.names[0]) for surface in domain.surfaces()]
    if domain.dimension != 2 or None in found:
        return None
    levels = list(chain.from_iterable(each or () for each in found))
    heights = _heights(domain, levels)
    nodes, weights = np.polynomial.legendre.leggauss(
        max(_FEWEST, math.ceil(math.sqrt(n / (len(heights) - 1))))
    )
    along, of_along = nodes, weights
    if any(level.square.any() for level in levels):  # the ends of a curve go as a root of y
        along = np.sin(np.pi / 2 * nodes)
        of_along = np.pi / 2 * np.cos(np.pi / 2 * nodes) * weights
    points, shares = [], []
    for low, high in pairwise(heights):
        half = (high - low) / 2
        for y, of_y in zip((low + high) / 2 + half * along, half * of_along, strict=True):
            for a, b in _inside(domain, levels, y):
                x = (a + b) / 2 + (b - a) / 2 * nodes
                points.append(np.stack([x, np.full_like(x, y)], axis=1))
                shares.append((b - a) / 2 * of_y * weights)
    return np.concatenate(points), np.concatenate(shares)


def _along_x(level: Level, y: float) -> list[float]:
    """Return the coefficients of the polynomial in x that a level is at a height."""
    (a, b), (_, c) = level.square
    at = level.linear[1] * y + c * y**2 + level.constant
    return [float(at), float(level.linear[0] + 2 * b * y), float(a)]


def _inside(domain: Domain, levels: Sequence[Level], y: float) -> list[tuple[float, float]]:
    """Return the parts of a horizontal line in the domain."""
    roots = [_real(Polynomial(_along_x(level, y))) for level in levels]
    ends = np.unique(np.concatenate(roots))
    middle = np.stack([(ends[1:] + ends[:-1]) / 2, np.full(len(ends) - 1, y)], axis=1)
    pairs = zip(pairwise(ends.tolist()), domain.encloses(middle), strict=True)
    return [pair for pair, within in pairs if within]


def _heights(domain: Domain, levels: Sequence[Level]) -> FloatArray:
    """Return y of corners, of the ends of curves and where these meet others, in their order."""
    low, high = float(domain.lower[1]), float(domain.upper[1])
    corners = domain.corners() if hasattr(domain, "corners") else np.empty((0, 2))
    found = [np.array([low, high]), corners[:, 1]]
    curves = [level for level in levels if level.square.any()]

    def ends_of(level: Level, y: float) -> float:
        c, b, a = _along_x(level, y)
        return b**2 - 4 * a * c

    def common(pair: tuple[Level, Level], y: float) -> float:  # Sylvester's resultant
        rows = [[*reversed(_along_x(level, y)), 0.0] for level in pair]
        return float(np.linalg.det([np.roll(row, k) for row in rows for k in (0, 1)]))

    pairs = [p for p in combinations(levels, 2) if any(level.square.any() for level in p)]
    functions = [(ends_of, level) for level in curves] + [(common, pair) for pair in pairs]
    for function, of in functions:
        polynomial = Chebyshev.interpolate(
            np.vectorize(lambda y, f=function, of=of: f(of, y)), 4, [low, high]
        )
        found.append(_real(polynomial.convert(kind=Polynomial)))
    y = np.sort(np.concatenate(found))
    y = y[(y >= low) & (y <= high)]
    return y[np.append(True, np.diff(y) > _SAME * (high - low))]


def _real(polynomial: Polynomial) -> FloatArray:
    """Return the real roots, to rounding."""
    p = Polynomial(polynomial.coef / max(np.abs(polynomial.coef).max(), np.finfo(float).tiny))
    roots = p.trim(1e-14).roots()
    return np.asarray(roots[np.abs(roots.imag) <= 1e-7 * (1 + np.abs(roots))].real)
