"""The part of an operand's surface that bounds what the operands are combined to."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.surfaces.sampling import exactly, kept_share
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface


class KeptSurface(Surface):
    """The points of a surface with the region on one side only.

    The rule needs no case for each operation, and holds if operands share parts of boundaries.
    """

    def __init__(
        self,
        surface: Surface,
        region: Any,
        earlier: Sequence[Any],
        numbers: Mapping[str, str],
        *,
        step: float,
    ) -> None:
        self._surface, self._region, self._earlier = surface, region, tuple(earlier)
        self._step = step
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
        """See `Surface`; it is estimated, unless the surface remains as a whole."""
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
        rng = np.random.default_rng(0)
        return exactly(  # type: ignore[return-value]
            self.place, n, coordinates=self.coordinates, share=self.share, method="halton", rng=rng
        )

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
        self, region: Any, x: FloatArray, normals: FloatArray, margin: float = 0.0
    ) -> tuple[BoolArray, BoolArray]:
        """Return whether a region is on the side against the normal, and on that of the normal."""
        step = self._step * normals
        return region._within(x - step, margin), region._within(x + step, margin)
