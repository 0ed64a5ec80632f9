"""The geometry of a shape: membership, a map onto it, and its surfaces."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_integer
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, counts_per_axis
from sciml_par.problems.domains.surfaces.sampling import exactly, proportional
from sciml_par.problems.domains.surfaces.surface import Surface

ROUNDING = 8 * float(np.finfo(np.float32).eps)
"""Of coordinates that have passed through single precision, relative to the largest one."""
_LATTICES = 4
_LEAST_ON_AXIS = 16
_MOST_LATTICE = 2**16  # points for each that is wanted


class Region(ABC):
    """A closed, bounded part of ℝ^d, without names and checks; immutable."""

    __slots__ = ()

    _bounds: tuple[FloatArray, FloatArray]

    @property
    def lower(self) -> FloatArray:
        """Lower bounds [d] of an axis-parallel box around it, the smallest if that is known."""
        return self._bounds[0]

    @property
    def upper(self) -> FloatArray:
        """Upper bounds [d] of that box."""
        return self._bounds[1]

    @property
    @abstractmethod
    def volume(self) -> float:
        """The length, area or volume, in units of the coordinates."""

    @property
    def volume_error(self) -> float:
        """The standard error of the volume: 0 where it is exact to rounding."""
        return 0.0

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return int(self.lower.size)

    @property
    def extent(self) -> FloatArray:
        """Edge lengths upper − lower [d] of the box around it."""
        return self.upper - self.lower

    @property
    @abstractmethod
    def _key(self) -> Hashable:
        """A key that is equal for equal regions."""

    @abstractmethod
    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        """Return whether x: [n, d] lies in the region, enlarged by a small margin: [n]."""

    @property
    @abstractmethod
    def _surfaces(self) -> tuple[Surface, ...]:
        """The parts of the boundary, without those that have no measure."""

    @property
    def _leaves(self) -> tuple[Region, ...]:
        """The regions that it is combined of."""
        return (self,)

    @property
    def _coordinates(self) -> int:
        """The number of coordinates of the unit cube that `_place` takes."""
        return self.dimension

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Map the unit cube onto candidates, all equally likely: [n, k] -> x: [n, d], kept: [n]."""
        # lower + extent may round to just above upper.
        x = np.clip(self.lower + unit * self.extent, self.lower, self.upper)
        return x, self._within(x)

    @property
    def _candidates(self) -> float:
        """The volume of all candidates."""
        return float(np.prod(self.extent))

    @property
    def _share(self) -> float:
        """The part of the candidates that lies in the region; 1 to rounding is 1."""
        share = self.volume / self._candidates
        return share if share < 1 - 1e-12 else 1.0

    def _scattered(self, n: int, method: str, rng: np.random.Generator) -> FloatArray:
        """Return n points by a random method: [n, d]."""
        k, share = self._coordinates, self._share
        return exactly(self._place, n, coordinates=k, share=share, method=method, rng=rng)[0]

    @property
    def _polygon(self) -> Any:
        """The region as a geometry of shapely, where it is bounded by straight lines, or None."""
        return None

    def _surely_contains(self, other: Region) -> bool:
        """Return whether `other` is known to lie in this region."""
        return False

    def _surely_apart(self, other: Region) -> bool:
        """Return whether `other` is known to have no volume in common with this region."""
        return bool(np.any((self.upper <= other.lower) | (other.upper <= self.lower)))

    @property
    def _rounding(self) -> float:
        """The distance by which single precision may move a point."""
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper)).max()
        return ROUNDING * float(max(largest, self.extent.max()))

    def _lattice(self, n: int | Sequence[int], *, ends: bool) -> FloatArray:
        """Return about n points in the region that are equispaced in the box around it.

        With `ends`, the first and last ones of every axis lie on the bounds of the box; otherwise
        all are midpoints of equal cells.
        """
        least = 2 if ends else 1
        if not is_integer(n):
            counts = counts_per_axis(n, self.dimension, what="grid", least=least)
            return self._kept_lattice(counts, ends)
        wanted = checked_integer(n, "grid: n", least=1)
        total = wanted * float(np.prod(self.extent)) / self.volume
        # The axes of a shape have one unit, but for a polygon in space and time.
        fewest = max(least, min(_LEAST_ON_AXIS, math.floor(total ** (1 / self.dimension))))
        best = np.empty((0, self.dimension))
        for _ in range(_LATTICES):
            counts = proportional(self.extent, max(1, round(total)), least=fewest)
            found = self._kept_lattice(counts, ends)
            if abs(len(found) - wanted) < abs(len(best) - wanted) or not len(best):
                best = found
            total *= wanted / len(found) if len(found) else 2.0
            if total > _MOST_LATTICE * max(1, wanted):
                break
        if len(best):
            return best
        # The region is too thin for a lattice.
        return self._scattered(wanted, "halton", np.random.default_rng(0))

    def _kept_lattice(self, counts: Sequence[int], ends: bool) -> FloatArray:
        x = lattice(self.lower, self.upper, counts, ends=ends)
        # Those on the boundary count as inside, within rounding in double precision.
        return x[self._within(x, 1e-5 * self._rounding)]


def lattice(
    lower: FloatArray, upper: FloatArray, counts: Sequence[int], *, ends: bool
) -> FloatArray:
    """Return equispaced points in a box, [k, d]; the last axis varies fastest."""
    axes = [
        np.linspace(low, high, count)
        if ends
        else low + (high - low) * (np.arange(count) + 0.5) / count
        for low, high, count in zip(lower, upper, counts, strict=True)
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))
