"""Exactly n points of a shape, from a map of the unit cube of which some points are dropped."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.domains.surfaces.sampling import unit_points

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Place = Callable[[FloatArray], tuple[tuple[FloatArray, ...], BoolArray]]

_AT_ONCE = 2**20
_MOST = 2**24
_ROUNDS = 16
_OF_A_ROUND = 2**12


def exactly(
    place: Place,
    n: int,
    *,
    coordinates: int,
    share: float,
    method: str,
    rng: np.random.Generator,
) -> tuple[FloatArray, ...]:
    """Return the first n points that `place` keeps, and what comes with them.

    Parameters
    ----------
    place : unit: [m, k] -> (arrays [m, …], kept: [m]).
    coordinates : k.
    share : about which part of them it keeps; 1, or NaN where it is unknown, if it is all.
    method, rng : see `sciml_par.problems.domains.surfaces.sampling.unit_points`.
    """
    found: list[tuple[FloatArray, ...]] = []
    missing, tried = n, 0
    while missing > 0 or not found:
        asked = math.ceil(1.1 * missing / max(share, 1e-6)) + 8 if share < 1.0 else missing
        unit = in_unit_cube(method, min(asked, _AT_ONCE), coordinates, rng)
        arrays, kept = place(unit)
        chosen = np.flatnonzero(kept)[:missing]
        found.append(tuple(array[chosen] for array in arrays))
        missing, tried = missing - len(chosen), tried + len(unit)
        if missing > 0 and tried > _MOST and missing > n / 2:
            raise InputError(
                f"only {n - missing} of {tried} random points lie on the shape, of which {n} were "
                f"asked; it is too thin for the box around it. Give the points as an array."
            )
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def in_unit_cube(method: str, n: int, k: int, rng: np.random.Generator) -> FloatArray:
    """n points of the unit cube in k dimensions, of which there may be none."""
    return unit_points(method, n, k, rng) if k else np.empty((n, 0))


def kept_share(keeps: Callable[[FloatArray], BoolArray], k: int) -> tuple[float, float]:
    """Which part of the unit cube in k dimensions is kept, and its standard error.

    It is the mean over 16 random digital shifts of the first 4096 points of Sobol's sequence; the
    error is that of the mean of 16 independent values (Owen, Monte Carlo theory, methods and
    examples, 2013, section 17.3). Equal at every call.
    """
    if k == 0:
        return float(keeps(np.empty((1, 0))).mean()), 0.0
    rng = np.random.default_rng(0)
    shares = [
        float(keeps(unit_points("sobol", _OF_A_ROUND, k, rng)).mean()) for _ in range(_ROUNDS)
    ]
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / math.sqrt(_ROUNDS))
