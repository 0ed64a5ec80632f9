"""The boundary of a domain: its faces by name, points on it, and the outward normals there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.sampling import (
    GRID,
    allotted,
    checked_generator,
    method_name,
)
from sciml_par.problems.domains.surfaces.surface import Surface

INITIAL = "initial"
_SHOWN = 16  # names of faces in a message
_STRAIGHT = 1e-14  # by which a corner lies off the line between others, at least


class BoundedRegion(Region):
    """A region whose boundary has points, normals and named faces; see `Domain`."""

    __slots__ = ()

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of the parts of the boundary, for conditions that hold `on` some of them."""
        return tuple(dict.fromkeys(name for s in self._surfaces for name in s.names))

    @property
    def surface(self) -> float:
        """The measure of the boundary: for d = 1 its number of points, then length, area, ….

        Parts of faces of a combined domain are estimated by 65,536 quasi-random points.
        """
        return sum(surface.measure for surface in self._surfaces)

    @property
    def _size(self) -> float:
        """The volume, in the units of the sizes of surfaces."""
        return self.volume

    def _sizes(self, surfaces: Sequence[Surface]) -> FloatArray:
        """Return the sizes of parts of the boundary, in proportion to which points are dealt out.

        On a box they are equal: areas do not compare where coordinates have several units.
        """
        return np.array([surface.size for surface in surfaces])

    def number_on_boundary(self, interior: int) -> float:
        """Return the number of boundary points as dense as `interior` points inside (local).

        S (N/V)^((d−1)/d) with the measures S and V, and where these are not known as on a cube.
        """
        d = self.dimension
        if not np.isfinite(self._size):
            return float(2 * d * interior ** ((d - 1) / d))
        size = self._sizes(self._surfaces).sum()
        return float(size * (interior / self._size) ** ((d - 1) / d))

    def boundary(
        self,
        n: int,
        *,
        method: str = GRID,
        rng: np.random.Generator | None = None,
        with_initial: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Return points on the boundary and the outward unit normals there (local).

        Parameters
        ----------
        n : int
            The number of points for d > 1, at least one on each part of the boundary. The parts get
            points in proportion to their measures; the duration of a time counts as a length of the
            size of the space. On a box all faces get the same number, since areas do not compare if
            the coordinates have different units. On a grid n is approximate, and no point lies on
            an edge, except where one operand happens to cut the face of another. Ignored for d = 1.
        method : {"grid", "uniform", "latin-hypercube", "sobol", "halton"}
        rng : numpy.random.Generator
            For a random method.
        with_initial : bool
            Whether to include the initial face; see `initial`.

        Returns
        -------
        x : array [k, d]
        normals : array [k, d]
        """
        surfaces = self.surfaces(with_initial=with_initial)
        return self._on_surfaces(surfaces, n, method, rng, what="boundary")

    def near_faces(
        self, faces: Sequence[str], n: int, *, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return about n points on the boundary, of a box on these faces alone, and normals."""
        return self.boundary(n, method=method, rng=rng)

    def surfaces(self, *, with_initial: bool = True) -> list[Surface]:
        """Return the parts of the boundary, onto which points can be projected (local)."""
        left_out = [] if with_initial else [other.names for other in self._initial_surfaces]
        return [surface for surface in self._surfaces if surface.names not in left_out]

    @property
    def _initial_surfaces(self) -> tuple[Surface, ...]:
        """The parts of the boundary at the initial time."""
        return tuple(s for s in self._surfaces if INITIAL in s.names)

    def initial(
        self, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return points of the initial time, and outward normals (local).

        Arguments and results are those of `boundary`. The initial face of a box is the one on which
        the last coordinate is least.

        Raises
        ------
        InputError
            The domain has no time.
        """
        surfaces = self._initial_surfaces
        if not surfaces:
            raise InputError(
                f"{self} has no initial face, as none of its coordinates is a time; a domain with "
                f"one is domain * Time(0, 1)"
            )
        return self._on_surfaces(surfaces, n, method, rng, what="initial")

    def _on_surfaces(
        self, surfaces: Sequence[Surface], n: Any, method: str, rng: Any, *, what: str
    ) -> tuple[FloatArray, FloatArray]:
        name = method_name(method, f"{what}: method")
        if name != GRID and self.dimension > 1:
            rng = checked_generator(rng, what)
        count = 1 if self.dimension == 1 else checked_integer(n, f"{what}: n", least=1)
        sizes = self._sizes(surfaces)
        if not np.all(np.isfinite(sizes)):
            sizes = np.ones_like(sizes)
        if name == GRID:
            counts = np.maximum(1, np.round(count * sizes / sizes.sum())).astype(np.int64)
        else:
            counts = allotted(count, sizes)
        found = [s.points(int(k), name, rng) for s, k in zip(surfaces, counts, strict=True)]
        x, normals = (np.concatenate(each) for each in zip(*found, strict=True))
        return x, normals

    def on_faces(
        self, x: FloatArray, faces: Sequence[str], normals: FloatArray | None = None
    ) -> BoolArray:
        """Return which points of the boundary lie on one of these faces: x: [n, d] -> [n] (local).

        With the normals [n, d] of the points, a point on an edge lies on the face whose normal it
        has, and on no other.

        Raises
        ------
        InputError
            The domain has no face of this name; the message lists its faces.
        """
        points, found = self._as_points(x, "on_faces"), np.zeros(len(x), np.bool_)
        for name in (faces,) if isinstance(faces, str) else faces:
            surfaces = [surface for surface in self._surfaces if surface.answers_to(name)]
            if not surfaces:
                raise self._no_face(name)
            for surface in surfaces:
                near = surface.near(points, name, self._rounding)
                if normals is not None and near.any():
                    near[near] = surface.has_normals(points[near], normals[near])
                found |= near
        return found

    def _no_face(self, name: Any) -> InputError:
        others = tuple(dict.fromkeys(a for surface in self._surfaces for a in surface.aliases))
        also = f"; also understood: {_listed(others)}" if others else ""
        return InputError(
            f"{self} has no face {name!r}; its faces are {_listed(self.faces) or 'none'}{also}"
        )

    def snap(self, x: npt.ArrayLike) -> FloatArray:
        """Move points onto the boundary if they miss it by rounding (local).

        x: [n, d] -> [n, d]. In single precision 0.7 is a different number, so a point on the
        boundary may lie outside.
        """
        points = self._as_points(x, "snap").copy()
        for surface in self._surfaces:
            foot, _, kept = surface.project(points)
            close = np.linalg.norm(points - foot, axis=1) <= self._rounding
            points = np.where((close & kept)[:, None], foot, points)
        return points

    def outward_normals(self, x: npt.ArrayLike) -> FloatArray:
        """Return outward unit normals at points of the boundary: x: [n, d] -> [n, d] (local).

        Zero at points inside; the mean direction on an edge, where several faces meet.
        """
        mean = self._mean_normals(x)
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        return np.asarray(mean / np.where(length > 0, length, 1.0))

    def on_boundary(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points lie on the boundary, up to rounding: x: [n, d] -> [n] (local)."""
        points = self._as_points(x, "on_boundary")
        found = np.zeros(len(points), np.bool_)
        for surface in self._surfaces:
            found |= surface.near(points, None, self._rounding)
        return found

    def corners(self) -> FloatArray:
        """Return the corners of the boundary in the plane, [k, 2]; elsewhere none (local).

        If all edges are straight, these are all corners, otherwise those of the operands.
        """
        shapes = [leaf._polygon for leaf in self._leaves if leaf._polygon is not None]
        if self.dimension != 2 or not shapes:
            return np.empty((0, self.dimension))
        if self._polygon is not None:
            return _vertices(self._polygon)
        x = np.unique(np.concatenate(list(map(_vertices, shapes))), axis=0)
        return x[self.on_edges(x)]

    def on_edges(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points of the boundary have several normals: x: [n, d] -> [n] (local)."""
        if self._polygon is not None:  # at an end of a side that is cut, rounding leaves one normal
            from scipy.spatial import KDTree

            away, _ = KDTree(self.corners()).query(self._as_points(x, "on_edges"))
            return np.asarray(away <= self._rounding)
        length = np.linalg.norm(self._mean_normals(x), axis=1)
        return np.asarray((length > 0) & (length < 1 - 1e-6))

    def _mean_normals(self, x: npt.ArrayLike) -> FloatArray:
        """Return the mean of the normals of all parts of the boundary on which a point lies."""
        points = self._as_points(x, "outward_normals")
        total, number = np.zeros_like(points), np.zeros((len(points), 1))
        for surface in self._surfaces:
            foot, normals, kept = surface.project(points)
            near = kept & (np.linalg.norm(points - foot, axis=1) <= self._rounding)
            total += near[:, None] * normals
            number += near[:, None]
        return np.asarray(total / np.maximum(number, 1.0))

    def _as_points(self, x: npt.ArrayLike, what: str) -> FloatArray:
        try:
            points = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{what}: points must be numbers, got {x!r}") from None
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise InputError(
                f"{what}: points must have the shape [n, {self.dimension}], "
                f"got {list(points.shape)}"
            )
        return points


def _vertices(polygon: Any) -> FloatArray:
    """Return the points of a geometry of shapely at which its boundary turns, [k, 2]."""
    import shapely

    # The first point of a ring is kept, which is a corner in the normal form.
    rings, size = shapely.normalize(polygon), float(np.max(np.abs(polygon.bounds)))
    x = shapely.get_coordinates(shapely.simplify(rings, _STRAIGHT * size))
    return np.unique(x, axis=0)


def _listed(names: Sequence[str]) -> str:
    """Return the names, or the first of many."""
    more = f", … ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
