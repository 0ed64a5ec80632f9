"""Points and weights of integrals over boxes and other domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, combinations, pairwise

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.box import Box, gauss_legendre
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.surface import Level

Rule = tuple[FloatArray, FloatArray]

_FEWEST, _SAME = 8, 1e-9
"""Points along each axis of a part in the plane; and parts of the height that are none."""


def on_box(lower: FloatArray, upper: FloatArray, n: int | Sequence[int]) -> Rule:
    """Return Gauss–Legendre points x: [q, k] and weights [q]; one n is met about by all axes."""
    if not len(lower):
        return np.empty((1, 0)), np.ones(1)
    return gauss_legendre(lower, upper, _per_axis(n, len(lower)))


def over_domain(domain: Domain, n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of ∫ f dx over a domain.

    Gauss–Legendre on a box, and in the plane between lines and ellipses; elsewhere equal weights at
    about n points of a Sobol' sequence, whose error decreases about like 1/n.
    """
    if isinstance(domain, Box):
        return on_box(domain.lower, domain.upper, n)
    if is_integer(n) and (found := _over_plane(domain, int(n))) is not None:  # type: ignore[arg-type]
        return found
    if not np.isfinite(domain.volume):
        raise InputError(
            f"the volume of {domain} is not known, and with it the weights of an integral over it; "
            f"give them as IntegralCondition(..., points=(x, weights))"
        )
    count = checked_integer(n, "the number of points of an integral over this domain", least=1)
    x = domain.interior(count, method="sobol", rng=np.random.default_rng(0))
    return x, np.full(len(x), domain.volume / len(x))


def over_faces(domain: Domain, names: Sequence[str], n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of ∫ f dS over faces of a box, n points on each."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals over faces are those of a Box; for {domain} give points=(x, weights)"
        )
    faces = [surface.face for surface in domain.named_surfaces(names)]
    rules = [at_position(domain, face.axis, face.position, n) for face in faces]
    return np.concatenate([x for x, _ in rules]), np.concatenate([w for _, w in rules])


def at_position(domain: Domain, axis: int, position: float, n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of an integral over all axes of a box but one."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals at one value of a coordinate are those of a Box; for {domain} give "
            f"points=(x, weights)"
        )
    others = [i for i in range(domain.dimension) if i != axis]
    x, weights = on_box(domain.lower[others], domain.upper[others], n)
    return np.insert(x, axis, position, axis=1), weights


def _per_axis(n: int | Sequence[int], k: int) -> list[int]:
    if is_integer(n):
        total = checked_integer(n, "points of an integral", least=1)
        return [max(1, round(total ** (1 / k)))] * k
    counts = list(n)  # type: ignore[arg-type]
    if len(counts) != k:
        raise InputError(
            f"points of an integral must be a number, or {k}, one for each axis it goes over, got "
            f"{n!r}"
        )
    return [checked_integer(count, "points of an integral per axis", least=1) for count in counts]


def _over_plane(domain: Domain, n: int) -> Rule | None:
    """Return about n or more points x: [q, 2] and weights [q]; None for other boundaries (local).

    Boundaries are straight lines and ellipses in the plane.

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
