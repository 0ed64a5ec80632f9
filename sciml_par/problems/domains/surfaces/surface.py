"""A part of a boundary: its names, its measure, points on it, and outward normals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.surfaces.sampling import GRID, exactly

_SAME_DIRECTION = 0.9
"""Cosine above which a normal is that of a face; those that a user gives are approximate."""


class OnSurface(NamedTuple):
    """Points x [n, d] on a surface, outward unit normals [n, d], and which belong to it [n]."""

    x: FloatArray
    normals: FloatArray
    kept: BoolArray


class Level(NamedTuple):
    """The polynomial q(x) = xᵀ A x + b·x + c, which is 0 on a surface: [d, d], [d] and a number."""

    square: FloatArray
    linear: FloatArray
    constant: float

    @classmethod
    def plane(cls, normal: FloatArray, point: FloatArray) -> Level:
        """Return that of the plane through a point."""
        return cls(np.zeros((normal.size, normal.size)), -normal, float(normal @ point))

    @classmethod
    def ellipsoid(cls, center: FloatArray, shape: FloatArray) -> Level:
        """Return 1 − |S (x − center)|², for a matrix S: [d, d]."""
        square = -shape.T @ shape
        return cls(square, -2 * square @ center, 1 + float(center @ square @ center))


class Surface(ABC):
    """A part of the boundary of a shape in ℝ^d, with names for conditions.

    Aliases are not listed. `place` takes as many numbers of [0, 1] for a point as `coordinates`.
    """

    names: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    coordinates: int

    @property
    @abstractmethod
    def measure(self) -> float:
        """Its number of points, length or area, for d = 1, 2, 3."""

    @property
    def size(self) -> float:
        """By which points are dealt out: the measure, unless coordinates have several units."""
        return self.measure

    @property
    def share(self) -> float:
        """Which part of what `place` gives is kept."""
        return 1.0

    @abstractmethod
    def place(self, unit: FloatArray) -> OnSurface:
        """Map the unit cube onto candidates, equally likely in surface measure: [n, k]."""

    @abstractmethod
    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Return about n evenly spread points, none on an edge, and normals."""

    @abstractmethod
    def project(self, x: FloatArray) -> OnSurface:
        """Return the nearest points of the surface, for points x: [n, d] close to it.

        Where two of its normals meet, their mean stands for the normal, and is shorter than 1.
        """

    def answers_to(self, name: str) -> bool:
        """Return whether this is one of its names."""
        return name in self.names or name in self.aliases

    def near(self, x: FloatArray, name: str | None, tolerance: float) -> BoolArray:
        """Return which points lie on it, or on its part of that name: x: [n, d] -> [n]."""
        foot, _, kept = self.project(x)
        return np.asarray(kept & (np.linalg.norm(x - foot, axis=1) <= tolerance))

    def has_normals(self, x: FloatArray, normals: FloatArray) -> BoolArray:
        """Return at which points x: [n, d] of it these are its normals, so far as known: [n]."""
        ours = self.project(x).normals
        cosine = np.sum(ours * normals, axis=1)
        mean = np.linalg.norm(ours, axis=1) < 1 - 1e-6
        unknown = ~(ours.any(axis=1) & normals.any(axis=1))
        return np.asarray(unknown | (cosine > np.where(mean, 1e-6, _SAME_DIRECTION)))

    def levels(self, name: str) -> list[Level] | None:  # noqa: ARG002
        """Return polynomials that are 0 on it, or on its part of that name; None if unknown."""
        return None

    def points(
        self, n: int, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return n points by any method, and normals; about n on a grid."""
        if self.coordinates == 0:
            return self.place(np.empty((1, 0)))[:2]
        if method == GRID:
            return self.grid(n)
        assert rng is not None
        x, normals = exactly(
            self.place, n, coordinates=self.coordinates, share=self.share, method=method, rng=rng
        )
        return x, normals


def all_kept(x: FloatArray, normals: FloatArray) -> OnSurface:
    """Return points that all belong to the surface."""
    return OnSurface(x, normals, np.ones(len(x), np.bool_))
