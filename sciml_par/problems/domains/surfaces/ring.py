"""A closed line of straight edges as a part of a boundary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.surfaces.sampling import allotted
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface, all_kept


class Ring(Surface):
    """The outer ring of a polygon or that of a hole, vertices [n, 2]; see `Surface`.

    Edges without a name are named after the ring, except for "outer".
    """

    coordinates = 1

    def __init__(self, vertices: FloatArray, name: str, edges: Sequence[str]) -> None:
        self._start = vertices
        self._along = np.roll(vertices, -1, axis=0) - vertices
        self._lengths = np.linalg.norm(self._along, axis=1)
        self._ends = np.cumsum(self._lengths)
        sense = np.sign(signed_area(vertices)) * (1.0 if name == "outer" else -1.0)
        right = np.stack([self._along[:, 1], -self._along[:, 0]], axis=1)
        self._normals = sense * right / self._lengths[:, None]
        of = "" if name == "outer" else f"{name} "
        given = edges or [""] * len(vertices)
        self._edges = [each or f"{of}edge {k + 1}" for k, each in enumerate(given)]
        self.names = (name, *dict.fromkeys(self._edges))

    @property
    def measure(self) -> float:
        return float(self._ends[-1])

    def place(self, unit: FloatArray) -> OnSurface:
        return self._at(unit[:, 0] * self.measure)

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        """See `Surface`; each edge has a point where there are enough for it."""
        if n < len(self._lengths):
            return self._at((np.arange(n) + 0.5) / n * self.measure)[:2]
        counts = allotted(n, self._lengths)
        edges = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        share = (number + 0.5) / counts[edges]
        return self._start[edges] + share[:, None] * self._along[edges], self._normals[edges]

    def project(self, x: FloatArray) -> OnSurface:
        import shapely

        along = shapely.line_locate_point(shapely.LinearRing(self._start), shapely.points(x))
        edge = self._edge_at(along)
        share = np.sum((x - self._start[edge]) * self._along[edge], axis=1)
        share = np.clip(share / self._lengths[edge] ** 2, 0.0, 1.0)
        foot = self._start[edge] + share[:, None] * self._along[edge]
        # At a corner the foot belongs to two edges, whose mean normal is taken.
        rounding = 1e-9 * float(self._lengths.max())
        last = len(self._start) - 1
        other = np.where(share < 0.5, np.where(edge > 0, edge - 1, last), (edge + 1) % (last + 1))
        left = np.where(share < 0.5, share, 1 - share) * self._lengths[edge]
        normals = self._normals[edge]
        mean = (normals + self._normals[other]) / 2
        return all_kept(foot, np.where((left <= rounding)[:, None], mean, normals))

    def near(self, x: FloatArray, name: str | None, tolerance: float) -> BoolArray:
        if name is None or name == self.names[0]:
            return super().near(x, name, tolerance)
        found = np.zeros(len(x), np.bool_)
        for edge, of in enumerate(self._edges):
            if of == name:
                start, along = self._start[edge], self._along[edge]
                share = np.clip((x - start) @ along / self._lengths[edge] ** 2, 0.0, 1.0)
                foot = start + share[:, None] * along
                found |= np.linalg.norm(x - foot, axis=1) <= tolerance
        return found

    def levels(self, name: str) -> list[Level]:
        edges = zip(self._edges, self._normals, self._start, strict=True)
        whole = name == self.names[0]
        return [Level.plane(normal, start) for of, normal, start in edges if whole or of == name]

    def _edge_at(self, length: FloatArray) -> npt.NDArray[np.int64]:
        """Return the edge at this length along the ring."""
        edge = np.searchsorted(self._ends, length, side="right")
        return np.minimum(edge, len(self._ends) - 1)

    def _at(self, length: FloatArray) -> OnSurface:
        """Return the points that far along the ring."""
        edge = self._edge_at(length)
        share = (length - (self._ends - self._lengths)[edge]) / self._lengths[edge]
        x = self._start[edge] + np.clip(share, 0.0, 1.0)[:, None] * self._along[edge]
        return all_kept(x, self._normals[edge])


def signed_area(vertices: FloatArray) -> float:
    """Compute the area within a ring, positive if anticlockwise (shoelace formula)."""
    # Relative to a corner, so that a ring far from the origin keeps its digits.
    x, y = (vertices - vertices[0]).T
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) / 2)
