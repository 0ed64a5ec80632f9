"""Points in the unit cube and on spheres by several methods, and exactly n points of a shape."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray

GRID = "grid"
RANDOM_METHODS = ("uniform", "latin-hypercube", "sobol", "halton")
METHODS = (GRID, *RANDOM_METHODS)
MOST_OF_A_GRID = 3
"""In so many dimensions, points are on a grid by default."""

_SOBOL_BITS = 30
_INSIDE = 1e-16  # normal quantiles are finite inside the unit interval only
_MOST_KEPT = 2**19  # numbers of a sequence, 4 MiB

_SYNONYMS = {
    "equispaced": GRID,
    "equidistant": GRID,
    "regular": GRID,
    "random": "uniform",
    "pseudo": "uniform",
    "pseudorandom": "uniform",
    "monte-carlo": "uniform",
    "lhs": "latin-hypercube",
    "latinhypercube": "latin-hypercube",
}


def method_name(value: Any, what: str, *, allowed: tuple[str, ...] = METHODS) -> str:
    """Return the name of a method in the form that this package uses.

    Capitals, underscores and a few other names are accepted, such as "LHS", "pseudo" and "random".
    """
    text = (
        value.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(value, str) else ""
    )
    name = _SYNONYMS.get(text, text.rstrip("'’"))
    if name in allowed:
        return name
    hint = " Take 'halton' in place of Hammersley's points." if name == "hammersley" else ""
    raise InputError(f"{what} must be one of {', '.join(allowed)}; got {value!r}.{hint}")


def unit_points(method: str, n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Return n points in the unit cube by one of the random methods: [n, d].

    "uniform" has independent points. "latin-hypercube" has one point in each of n equal layers of
    every axis (McKay, Beckman and Conover, Technometrics 21, 1979). "sobol" is SciPy's scrambled
    sequence with a digital shift that is drawn anew each time (Matoušek, J. Complexity 14, 1998),
    "halton" SciPy's scrambled sequence, moved as a whole by a random vector modulo 1 (Cranley and
    Patterson, SIAM J. Numer. Anal. 13, 1976). The sequences themselves are made once.
    """
    if n == 0 or d == 0:
        return np.empty((n, d))
    if method == "uniform":
        return rng.random((n, d))
    if method == "latin-hypercube":
        layers = np.stack([rng.permutation(n) for _ in range(d)], axis=1)
        return (layers + rng.random((n, d))) / n
    make = _sequence if n * d <= _MOST_KEPT else _sequence.__wrapped__
    sequence = make(method, n, d)
    if method == "halton":
        return (sequence + rng.random(d)) % 1.0
    shift = rng.integers(0, 2**_SOBOL_BITS, d)
    return ((sequence * 2.0**_SOBOL_BITS).astype(np.int64) ^ shift) / 2.0**_SOBOL_BITS


@functools.lru_cache(maxsize=32)
def _sequence(method: str, n: int, d: int) -> FloatArray:
    """Return the first points of a low-discrepancy sequence, scrambled always in the same way."""
    from scipy.stats import qmc  # its import takes a second

    rng = np.random.default_rng(0)
    if method == "halton":
        return np.asarray(qmc.Halton(d, rng=rng).random(n))
    # A whole power of two, cut: the same points as the first n, without SciPy's warning.
    engine = qmc.Sobol(d, bits=_SOBOL_BITS, rng=rng)
    return np.asarray(engine.random_base2(math.ceil(math.log2(n))))[:n]


def checked_generator(rng: Any, what: str) -> np.random.Generator:
    """Let a generator of random numbers through."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(
            f"{what}: a random method needs rng=np.random.default_rng(seed); got {rng!r}."
        )
    return rng


def proportional(extent: FloatArray, total: int, *, least: int) -> list[int]:
    """Return points per axis in proportion to the lengths, with a product near `total`."""
    counts = [0] * len(extent)
    remaining = float(total)
    # Shortest first: what rounding or the minimum takes on one axis, the longer ones make good.
    order = np.argsort(extent, kind="stable")
    for place, axis in enumerate(order):
        left = order[place:]
        spacing = (float(np.prod(extent[left])) / remaining) ** (1 / len(left))
        counts[axis] = max(least, round(extent[axis] / spacing))
        remaining = max(remaining / counts[axis], 1.0)
    return counts


def allotted(total: int, sizes: FloatArray) -> npt.NDArray[np.int64]:
    """Deal out `total` points in proportion to sizes, at least one each: [k].

    The sum is `total` wherever that is at least k; the largest remainders are rounded up.
    """
    shares = total * sizes / sizes.sum()
    counts = np.floor(shares).astype(np.int64)
    largest_remainders = np.argsort(counts - shares, kind="stable")
    counts[largest_remainders[: total - int(counts.sum())]] += 1
    while not counts.all():
        if counts.max() > 1:
            counts[np.argmax(counts)] -= 1
        counts[np.argmin(counts)] += 1
    return counts


Place = Callable[[FloatArray], tuple[Any, ...]]

_AT_ONCE = 2**20
_MOST = 2**24
_ROUNDS = 16
_OF_A_ROUND = 2**12


def exactly(
    place: Place, n: int, *, coordinates: int, share: float, method: str, rng: np.random.Generator
) -> tuple[FloatArray, ...]:
    """Return the first n points that `place` keeps, with what belongs to them.

    `place` maps [m, k] numbers of the unit cube to arrays [m, …], the last of which tells the kept
    rows. `share` is about the kept part; if it is 1 or NaN, all are kept.
    """
    found: list[tuple[FloatArray, ...]] = []
    missing, tried = n, 0
    while missing > 0 or not found:
        asked = math.ceil(1.1 * missing / max(share, 1e-6)) + 8 if share < 1.0 else missing
        unit = unit_points(method, min(asked, _AT_ONCE), coordinates, rng)
        *arrays, kept = place(unit)
        chosen = np.flatnonzero(kept)[:missing]
        found.append(tuple(array[chosen] for array in arrays))
        missing, tried = missing - len(chosen), tried + len(unit)
        if missing > 0 and tried > _MOST and missing > n / 2:
            raise InputError(
                f"only {n - missing} of {tried} random points lie on the shape, of which {n} were "
                f"asked; it is too thin for the box around it. Give the points as an array."
            )
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def kept_share(keeps: Callable[[FloatArray], BoolArray], k: int) -> tuple[float, float]:
    """Estimate the kept share of the unit cube in k dimensions, and its standard error.

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
