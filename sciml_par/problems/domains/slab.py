"""Slabs across an axis: the part between two planes, and where cuts give equal volumes or times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.faces import BoxFace, faces_of
from sciml_par.problems.domains.surfaces.surface import Surface


class SlabRegion(Region):
    """The box between two planes across one axis."""

    def __init__(
        self, lower: FloatArray, upper: FloatArray, axis: int, low: float, high: float
    ) -> None:
        self.axis, self.low, self.high = axis, float(low), float(high)
        self._bounds = lower.copy(), upper.copy()
        self.lower[axis], self.upper[axis] = low, high

    @property
    def volume(self) -> float:
        return float(np.prod(self.extent))

    @property
    def _key(self) -> Hashable:
        return ("slab", tuple(self.lower), tuple(self.upper))

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        along = x[:, self.axis]
        return np.asarray((self.low - margin <= along) & (along <= self.high + margin))

    @property
    def _surfaces(self) -> tuple[Surface, ...]:
        cut = faces_of(self.lower, self.upper)[2 * self.axis : 2 * self.axis + 2]
        names = ("lower cut", "upper cut")
        return tuple(
            BoxFace(face, self.lower, self.upper, (name,))
            for face, name in zip(cut, names, strict=True)
        )


def cuts_of_equal_volume(polygon: Any, axis: int, shares: FloatArray) -> FloatArray:
    """Return the coordinates below which these shares of the area of a geometry of shapely lie."""
    import shapely
    from scipy.optimize import brentq

    bounds = np.array(polygon.bounds)
    low, high = bounds[:2], bounds[2:]

    def excess(position: float, share: float) -> float:
        top = high.copy()
        top[axis] = position
        below = shapely.intersection(polygon, shapely.box(*low, *top))
        return float(below.area - share * polygon.area)

    rounding: Any = {"xtol": np.finfo(float).tiny, "rtol": 4 * np.finfo(float).eps}
    ends = low[axis], high[axis]
    return np.array([brentq(excess, *ends, args=(share,), **rounding) for share in shares])


def cuts_between(initial: float, final: float, slabs: Any, owner: str) -> tuple[float, ...]:
    """Return the inner times of a number of equal slabs, or those that are given."""
    what = f"{owner}: slabs must be a number of slabs ≥ 1, or increasing times between {initial:g}"
    if is_integer(slabs):
        if slabs < 1:
            raise InputError(f"{what} and {final:g}; got {slabs!r}")
        return tuple(np.linspace(initial, final, int(slabs) + 1)[1:-1].tolist())
    try:
        times = np.asarray(slabs, np.float64)
    except (TypeError, ValueError):
        times = np.empty(())
    if isinstance(slabs, str | bool) or times.ndim != 1:
        raise InputError(f"{what} and {final:g}; got {slabs!r}")
    if not np.all(np.diff([initial, *times, final]) > 0):
        raise InputError(f"{what} and {final:g} without these two; got {times.tolist()}")
    return tuple(times.tolist())
