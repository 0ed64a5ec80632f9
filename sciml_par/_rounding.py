"""Points whose neighbours lie as close as the numbers of the precision in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_SHARE = 0.01
"""Of the spacing. Measured with 40 points on a wave: 0.2 % cost 2e-4 of its height, 4 % 5e-3."""
_MOST = 1000  # points on an axis that a network is believed to resolve
_LOST = 0.05  # of all points; fewer of a random set coincide by chance
_JITTER = 8  # float64 roundings by which computations of one point differ


class Rounding(NamedTuple):
    """The axis on which the numbers of a precision are coarse for points.

    `step` lies between neighbouring numbers at the largest |x|, `spacing` between neighbouring
    points. `before` and `after` count different points, in double precision and in this one.
    """

    axis: int
    step: float
    spacing: float
    before: int
    after: int
    coincide: bool

    def text(self, dtype: str, what: str, names: Sequence[str]) -> str:
        """Return the fault and the remedies as sentences."""
        found = (
            f"{self.before} points become {self.after}"
            if self.coincide and self.after < self.before
            else f"a point moves by up to {self.step / 2:.2g}"
        )
        wider = "" if dtype == "float64" else "use precision='float64', or "
        name = names[self.axis]
        return (
            f"{what} lie {self.spacing:.2g} apart along {name!r}, where neighbouring {dtype} "
            f"numbers are {self.step:.2g} apart: {found}. To mend it, {wider}measure {name!r} "
            f"from a point nearby, so that its values are small."
        )


def coarse_rounding(x: FloatArray, dtype: str) -> Rounding | None:
    """Return the axis on which `dtype` is coarsest for x: [n, d], if it is too coarse."""
    axes = [_Axis(column, dtype) for column in x.T]
    several = [j for j, axis in enumerate(axes) if axis.count > 1]
    if not several:
        return None
    # Scattered points have as many values on each axis as there are points.
    scattered = np.prod([float(axes[j].count) for j in several]) > 2 * len(x)
    most = max(2.0, len(x) ** (1 / len(several))) if scattered else np.inf
    spacings = {j: axes[j].extent / (min(axes[j].count, most) - 1) for j in several}
    worst = max(several, key=lambda j: axes[j].step / spacings[j])
    step, spacing = axes[worst].step, spacings[worst]
    before = after = len(x)
    if any(axis.merged > _LOST * axis.count for axis in axes):
        before, after = _different(x, axes, "apart"), _different(x, axes, "differ")
    coincide = not step < spacing or after < (1 - _LOST) * before
    coarse = step > _SHARE * max(spacing, axes[worst].extent / _MOST)
    return Rounding(worst, step, spacing, before, after, coincide) if coincide or coarse else None


class _Axis:
    """The values of points on an axis: which are apart, and which still differ in the precision."""

    def __init__(self, column: FloatArray, dtype: str) -> None:
        self.values = np.unique(column)
        ends = self.values[[0, -1]] if len(self.values) else np.zeros(2)
        largest = np.abs(ends).max()
        with np.errstate(over="ignore", invalid="ignore"):
            cast = self.values.astype(dtype)
            step = float(np.spacing(np.asarray(largest, dtype)))
        self.step = step if np.isfinite(step) else np.inf
        gaps = np.diff(self.values)
        self.differ = cast[1:] != cast[:-1]
        self.extent = float(ends[1] - ends[0])
        # Points of a flat face, such as that of a mesh, have one coordinate up to rounding.
        jitter = _JITTER * np.spacing(largest)
        exact = dtype == "float64" and self.extent >= jitter
        self.apart = gaps > (0 if exact else jitter)
        self.count = 1 + int(np.count_nonzero(self.apart))
        self.merged = int(np.count_nonzero(self.apart & ~self.differ))


def _different(x: FloatArray, axes: Sequence[_Axis], flags: str) -> int:
    """Return how many rows differ if values of an axis do so only where these flags are set."""
    rows = np.zeros(len(x), np.int64)
    for column, axis in zip(x.T, axes, strict=True):
        groups = np.concatenate([[0], np.cumsum(getattr(axis, flags))])
        joined = rows * len(axis.values) + groups[np.searchsorted(axis.values, column)]
        rows = np.unique(joined, return_inverse=True)[1]
    return int(rows.max()) + 1
