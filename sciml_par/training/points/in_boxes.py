"""Points of many boxes that differ in size, in equal or other given shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import allotted, unit_points

FloatArray = npt.NDArray[np.float64]

_TRIED = 256
"""Points of a box that tell which part of it lies in the domain."""
_INSIDE = 1e-6
"""Of its sides, by which a boundary lies in a box and not at its face."""
_MOST_DRAWS = 16
_SPARE = 4
"""Points of a box that are projected onto the boundary, for each that is wanted there."""


@dataclass(frozen=True, eq=False)
class InBoxes:
    """Draws points of a domain in each box, where more are in those of more features.

    Attributes
    ----------
    domain : of the points.
    lower, upper : corners of the boxes, [K, d].
    shares : of the boxes, which lie in the domain, [K].
    richness : how many times as many points as others a box has, [K].
    """

    domain: Domain
    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    richness: FloatArray

    @classmethod
    def of(
        cls, domain: Domain, lower: FloatArray, upper: FloatArray, richness: Any = None
    ) -> InBoxes:
        """Return all of these boxes, with their shares."""
        d = lower.shape[1]
        unit = unit_points("halton", _TRIED, d, np.random.default_rng(0))
        x = lower[:, None] + unit * (upper - lower)[:, None]  # [K, T, d]
        found = domain.encloses(x.reshape(-1, d)).reshape(x.shape[:2]).mean(axis=1)
        margin = _INSIDE * (upper - lower)
        for surface in domain.surfaces() if d > 1 else []:
            foot, _, kept = surface.project(x.reshape(-1, d))
            foot = foot.reshape(x.shape)
            inside = (foot > (lower + margin)[:, None]) & (foot < (upper - margin)[:, None])
            bounding = (inside.all(axis=2) & kept.reshape(x.shape[:2])).any(axis=1)
            found[bounding] = np.clip(found[bounding], 1 / _TRIED, 1 - 1 / _TRIED)
        given = np.ones(len(lower)) if richness is None else np.asarray(richness, float)
        return cls(domain, lower, upper, found, given)

    @property
    def outside(self) -> list[int]:
        """The numbers of the boxes that have no part in the domain."""
        return list(map(int, np.flatnonzero(self.shares == 0)))

    def used(self) -> InBoxes:
        """Return the boxes that have a part in the domain."""
        inside = self.shares > 0
        kept = (each[inside] for each in (self.lower, self.upper, self.shares, self.richness))
        return InBoxes(self.domain, *kept)

    def interior(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return n points of the domain, [n, d]; fewer if a box has almost no part in it."""
        return np.concatenate(self.in_each(allotted(n, self.richness), rng))

    def in_each(self, counts: Iterable[int], rng: np.random.Generator) -> list[FloatArray]:
        """Return points of the domain in each box, up to `counts` of them, [k, d] each."""
        d, found = self.lower.shape[1], []
        given = zip(self.lower, self.upper, self.shares, counts, strict=True)
        for low, high, share, count in given:
            here = np.empty((0, d))
            for _ in range(_MOST_DRAWS):
                if len(here) >= count:
                    break
                unit = unit_points("sobol", int(1.2 * count / share) + 16, d, rng)
                x = low + (unit + rng.random(d)) % 1.0 * (high - low)
                here = np.concatenate([here, x if share == 1 else x[self.domain.encloses(x)]])
            found.append(here[:count])
        return found

    def weights(self, x: FloatArray) -> FloatArray:
        """Return factors [n] of |r|² at points x: [n, d], of mean 1: [n].

        With them the mean over the points is that over the domain of (h/p)² |r|², where h is the
        side of a box and p^d its richness, as in the estimators of finite elements (Melenk and
        Wohlmuth 2001, doi:10.1023/A:1014268310921). The error that such a residual causes hardly
        depends on h.
        """
        volumes = np.prod(self.upper - self.lower, axis=1)
        sizes = self.shares * volumes * (volumes / self.richness) ** (2 / self.lower.shape[1])
        found = np.zeros(len(x))
        for low, high, size in zip(self.lower, self.upper, sizes, strict=True):
            inside = ((x >= low) & (x <= high)).all(axis=1)
            found[inside] = size / max(inside.sum(), 1)
        return found * (len(x) / found.sum())

    def boundary(
        self, n: int, rng: np.random.Generator, *, with_initial: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return about n points of the boundary, and outward unit normals, [k, d] each."""
        return self._on_boundary(max(n / max(self.sides, 1), 1.0), rng, with_initial)[:2]

    @property
    def sides(self) -> float:
        """How many parts of the boundary lie in boxes, those in each box counted.

        Those of boxes with more points count as more.
        """
        return self._on_boundary(16.0, np.random.default_rng(0), True)[2]

    def _on_boundary(
        self, each: float, rng: np.random.Generator, with_initial: bool
    ) -> tuple[FloatArray, FloatArray, float]:
        count, d = self.lower.shape
        factors = self.richness ** ((d - 1) / d)
        wanted = np.round(each * factors)
        unit = unit_points("sobol", int(_SPARE * wanted.max()), d, rng)
        shifted = (unit + rng.random((count, 1, d))) % 1.0  # [K, T, d]
        inside = self.lower[:, None] + shifted * (self.upper - self.lower)[:, None]
        rounding = _INSIDE * (self.upper - self.lower)
        low, high = self.lower - rounding, self.upper + rounding
        x, normals, sides = [np.empty((0, d))], [np.empty((0, d))], 0.0
        for surface in self.domain.surfaces(with_initial=with_initial):
            foot, normal, kept = surface.project(inside.reshape(-1, d))
            foot, normal = foot.reshape(inside.shape), normal.reshape(inside.shape)
            kept = kept.reshape(inside.shape[:2]) & (np.linalg.norm(normal, axis=2) > 1 - 1e-6)
            kept &= ((foot >= low[:, None]) & (foot <= high[:, None])).all(axis=2)
            chosen = kept & (np.cumsum(kept, axis=1) <= wanted[:, None])
            x.append(foot[chosen])
            normals.append(normal[chosen])
            sides += float(factors @ kept.any(axis=1))
        return np.concatenate(x), np.concatenate(normals), sides
