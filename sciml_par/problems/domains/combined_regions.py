"""Union, intersection and difference of regions, with the parts of their boundaries that remain."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.sampling import kept_share, spread
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface

_AROUND = 64
"""Points around one at a boundary, of which some lie in the region unless it ends in a tip."""


class CombinedRegion(Region):
    """The base of the three combinations."""

    sign: str
    in_shapely: str  # the method of a geometry of shapely
    of_volumes: tuple[int, int, int]  # factors of both volumes and of the common one

    def __init__(self, first: Region, second: Region) -> None:
        self._first, self._second = first, second
        self._bounds = self._combined_bounds()
        if self._polygon is not None and not self._polygon.is_empty:
            bounds = np.array(self._polygon.bounds)
            self._bounds = bounds[:2], bounds[2:]

    @property
    def _key(self) -> Hashable:
        return (self.sign, self._first._key, self._second._key)

    @property
    def _leaves(self) -> tuple[Region, ...]:
        return (*self._first._leaves, *self._second._leaves)

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        """The surfaces of all operands, as far as they bound the result.

        A surface keeps its names. A name that several have belongs to all of them, and each has it
        with its number as well, in the order of the operands: "surface 1", "surface 2".
        """
        owned = [(i, s) for i, leaf in enumerate(self._leaves) for s in leaf._surfaces]
        total = Counter(name for _, s in owned for name in (*s.names, *s.aliases))
        seen = Counter[str]()
        found = []
        for i, surface in owned:
            names = (*surface.names, *surface.aliases)
            seen.update(names)
            numbers = {name: f"{name} {seen[name]}" for name in names if total[name] > 1}
            # A boundary that two operands share has its points from the first of them.
            earlier = self._leaves[:i]
            kept = KeptSurface(surface, self, earlier, numbers)
            if kept.share > 0:
                found.append(kept)
        return tuple(found)

    @functools.cached_property
    def _polygon(self) -> Any:
        first, second = self._first._polygon, self._second._polygon
        if first is None or second is None:
            return None
        return getattr(first, self.in_shapely)(second)

    @functools.cached_property
    def _measured(self) -> tuple[float, float]:
        """The volume and its standard error."""
        if self._polygon is not None:
            return float(self._polygon.area), 0.0
        common = self._common_volume()
        if common is None:
            return _estimate(self)
        first, second, both = self.of_volumes
        return first * self._first.volume + second * self._second.volume + both * common, 0.0

    def _common_volume(self) -> float | None:
        """Return the volume of the intersection of the operands, where it follows from theirs."""
        a, b = self._first, self._second
        if a.volume_error or b.volume_error:
            return None
        if a._surely_apart(b) or b._surely_apart(a):
            return 0.0
        if a._surely_contains(b):
            return b.volume
        return a.volume if b._surely_contains(a) else None

    @property
    def volume(self) -> float:
        return self._measured[0]

    @property
    def volume_error(self) -> float:
        return self._measured[1]

    @abstractmethod
    def _combined_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return a box around the result, by those around the operands."""

    @property
    def _cheaper(self) -> Region:
        """The operand with the fewer candidates."""
        pair = (self._first, self._second)
        return min(pair, key=lambda region: region._candidates)


@functools.lru_cache(maxsize=256)
def _estimate(region: Region) -> tuple[float, float]:
    """Return the volume by quasi-random points, and its standard error; see `kept_share`."""
    share, error = kept_share(lambda unit: region._place(unit)[1], region._coordinates)
    return share * region._candidates, error * region._candidates


class UnionRegion(CombinedRegion):
    """The points of either region."""

    sign, in_shapely, of_volumes = "|", "union", (1, 1, -1)

    def _combined_bounds(self) -> tuple[FloatArray, FloatArray]:
        a, b = self._first, self._second
        return np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper)

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return self._first._within(x, margin) | self._second._within(x, margin)

    def _surely_contains(self, other: Region) -> bool:
        return self._first._surely_contains(other) or self._second._surely_contains(other)

    def _surely_apart(self, other: Region) -> bool:
        return self._first._surely_apart(other) and self._second._surely_apart(other)

    @property
    def _coordinates(self) -> int:
        return 1 + max(self._first._coordinates, self._second._coordinates)

    @property
    def _candidates(self) -> float:
        return self._first._candidates + self._second._candidates

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Choose the operand by one number; points in both count for the first one."""
        a, b = self._first, self._second
        in_first = unit[:, 0] * self._candidates < a._candidates
        x, kept = np.empty((len(unit), self.dimension)), np.zeros(len(unit), np.bool_)
        for region, rows in ((a, in_first), (b, ~in_first)):
            x[rows], kept[rows] = region._place(unit[rows, 1 : 1 + region._coordinates])
        return x, kept & (in_first | ~a._within(x))


class IntersectionRegion(CombinedRegion):
    """The points of both regions."""

    sign, in_shapely, of_volumes = "&", "intersection", (0, 0, 1)

    def _combined_bounds(self) -> tuple[FloatArray, FloatArray]:
        a, b = self._first, self._second
        return np.maximum(a.lower, b.lower), np.minimum(a.upper, b.upper)

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return self._first._within(x, margin) & self._second._within(x, margin)

    def _surely_contains(self, other: Region) -> bool:
        return self._first._surely_contains(other) and self._second._surely_contains(other)

    def _surely_apart(self, other: Region) -> bool:
        return (
            self._first._surely_apart(other)
            or self._second._surely_apart(other)
            or super()._surely_apart(other)
        )

    @property
    def _in_box(self) -> bool:
        """Whether the box around it has fewer candidates than either operand."""
        return float(np.prod(self.extent)) < self._cheaper._candidates

    @property
    def _coordinates(self) -> int:
        return self.dimension if self._in_box else self._cheaper._coordinates

    @property
    def _candidates(self) -> float:
        return float(np.prod(self.extent)) if self._in_box else self._cheaper._candidates

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        if self._in_box:
            return super()._place(unit)
        x, kept = self._cheaper._place(unit)
        return x, kept & self._within(x)


class DifferenceRegion(CombinedRegion):
    """The points of the first region that are not inside the second."""

    sign, in_shapely, of_volumes = "-", "difference", (1, 0, -1)

    def _combined_bounds(self) -> tuple[FloatArray, FloatArray]:
        return self._first.lower, self._first.upper

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        found = self._first._within(x, margin) & ~self._second._within(x, -margin)
        if margin > 0:
            # What both boundaries share belongs to it only where it bounds some of it.
            rows = np.flatnonzero(found & ~self._within(x))
            around = x[rows, None] + 2 * margin * spread(_AROUND, x.shape[1])
            inside = self._within(around.reshape(-1, x.shape[1]))
            found[rows] = inside.reshape(around.shape[:2]).any(axis=1)
        return found

    def _surely_contains(self, other: Region) -> bool:
        apart = self._second._surely_apart(other) or other._surely_apart(self._second)
        return apart and self._first._surely_contains(other)

    def _surely_apart(self, other: Region) -> bool:
        return self._first._surely_apart(other) or self._second._surely_contains(other)

    @property
    def _coordinates(self) -> int:
        return self._first._coordinates

    @property
    def _candidates(self) -> float:
        return self._first._candidates

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        x, kept = self._first._place(unit)
        return x, kept & ~self._second._within(x)


class KeptSurface(Surface):
    """The points of a surface with the region on one side only.

    The rule needs no case for each operation, and holds if operands share parts of boundaries.
    """

    def __init__(
        self,
        surface: Surface,
        region: Region,
        earlier: Sequence[Region],
        numbers: Mapping[str, str],
    ) -> None:
        self._surface, self._region, self._earlier = surface, region, earlier
        self._step = 1e-6 * float(region.extent.max())
        self._names_inside = {new: old for old, new in numbers.items()}
        self.names = tuple(numbers.get(name, name) for name in surface.names)
        unnumbered = (*surface.aliases, *(n for n in surface.names if n in numbers))
        self.aliases = (*unnumbered, *(numbers[a] for a in surface.aliases if a in numbers))
        self.coordinates = surface.coordinates

    @functools.cached_property
    def share(self) -> float:
        return kept_share(lambda unit: self.place(unit).kept, self.coordinates)[0]

    @functools.cached_property
    def measure(self) -> float:
        return self._surface.measure * (self.share / self._surface.share)

    @property
    def size(self) -> float:
        return self._surface.size * (self.share / self._surface.share)

    def place(self, unit: FloatArray) -> OnSurface:
        return self._bounding(*self._surface.place(unit))

    def _bounding(self, x: FloatArray, normals: FloatArray, kept: BoolArray) -> OnSurface:
        """Keep the points that bound the region and no earlier operand, with outward normals."""
        inward, outward = self._sides(self._region, x, normals)
        kept = kept & (inward != outward)
        for other in self._earlier:
            one, another = self._sides(other, x, normals)
            kept &= one == another
        return OnSurface(x, np.where(inward[:, None], normals, -normals), kept)

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        asked = max(1, round(n * self._surface.share / self.share))
        x, normals = self._surface.grid(asked)
        x, normals, kept = self._bounding(x, normals, np.ones(len(x), np.bool_))
        if kept.any():
            return x[kept], normals[kept]
        # So small a part that no point of the grid lies on it has points of a sequence.
        return self.points(n, "halton", np.random.default_rng(0))

    def project(self, x: FloatArray) -> OnSurface:
        foot, normals, kept = self._surface.project(x)
        inward, outward = self._sides(self._region, foot, normals)
        # On an edge, a step along one face stays on another: there the open region decides.
        margin = -self._step / 2
        inner, outer = self._sides(self._region, foot, normals, margin)
        bounds = (inward != outward) | (inner != outer)
        inside = np.where(inward != outward, inward, inner)
        return OnSurface(foot, np.where(inside[:, None], normals, -normals), kept & bounds)

    def near(self, x: FloatArray, name: str | None, tolerance: float) -> BoolArray:
        inside = None if name is None else self._names_inside.get(name, name)
        return self._surface.near(x, inside, tolerance) & self.project(x).kept

    def levels(self, name: str) -> list[Level] | None:
        return self._surface.levels(self._names_inside.get(name, name))

    def _sides(
        self, region: Region, x: FloatArray, normals: FloatArray, margin: float = 0.0
    ) -> tuple[BoolArray, BoolArray]:
        """Return whether a region is on the side against the normal, and on that of the normal."""
        step = self._step * normals
        return region._within(x - step, margin), region._within(x + step, margin)
