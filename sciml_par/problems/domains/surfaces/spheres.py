"""Unit vectors that are spread over a sphere."""

from __future__ import annotations

import math

import numpy as np

from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.surfaces.sampling import unit_points

_INSIDE = 1e-16  # normal quantiles are finite inside the unit interval only


def coordinates_of(d: int) -> int:
    """Return how many numbers of [0, 1] `directions` takes for a unit vector of ℝ^d."""
    return max(1, d - 1) if d <= 3 else d


def directions(unit: FloatArray, d: int) -> FloatArray:
    """Return unit vectors, uniform on the sphere for uniform numbers: [n, k] -> [n, d].

    For d = 1 a sign and for d = 2 an angle. For d = 3 a height and an angle, as equal heights have
    equal areas (Archimedes). Otherwise a vector of normal quantiles, divided by its length (Muller,
    Comm. ACM 2, 1959).
    """
    if d == 1:
        return np.where(unit < 0.5, -1.0, 1.0)
    if d == 2:
        angle = 2 * math.pi * unit[:, 0]
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if d == 3:
        height, angle = 2 * unit[:, 0] - 1, 2 * math.pi * unit[:, 1]
        across = np.sqrt(1 - height**2)
        return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=1)
    from scipy.special import ndtri

    vectors = ndtri(np.clip(unit, _INSIDE, 1 - 1e-16))
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.where(length > 0, vectors, np.eye(1, d))
    return np.asarray(vectors / np.where(length > 0, length, 1.0))


def spread(n: int, d: int) -> FloatArray:
    """Return n evenly spread unit vectors, always the same: [n, d].

    For d = 1 both signs; for d = 2 the midpoints of equal arcs; for d = 3 a spiral by the golden
    angle, each point at the middle height of an equal area (Vogel, Math. Biosci. 44, 1979);
    otherwise from the first points of Halton's sequence.
    """
    if d == 1:
        return np.array([[-1.0], [1.0]])
    middles = (np.arange(n) + 0.5) / n
    if d == 2:
        return directions(middles[:, None], 2)
    if d == 3:
        turns = np.arange(n) * (3 - math.sqrt(5)) / 2 % 1.0
        return directions(np.stack([middles, turns], axis=1), 3)
    return directions(unit_points("halton", n, d, np.random.default_rng(0)), d)
