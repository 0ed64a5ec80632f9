"""The boundary of an axis-parallel box: its faces by name, points on them, and normals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import ROUNDING
from sciml_par.problems.domains.surfaces.faces import BoxFace, faces_of
from sciml_par.problems.domains.surfaces.surface import Surface

_SIDES = (("left", "right"), ("bottom", "top"), ("front", "back"))
_TIMES = ("t", "time")


class BoxBoundary(Domain):
    """The boundary of a `Box`, exact to rounding along each axis."""

    __slots__ = ()

    @property
    def _initial_surfaces(self) -> tuple[Surface, ...]:
        """The face on which the last coordinate, often the time, is least."""
        return self._surfaces[-2:-1]

    @property
    def _size(self) -> float:
        """The unit cube's, so that the numbers of points do not depend on units."""
        return 1.0

    def _sizes(self, surfaces: Sequence[Surface]) -> FloatArray:
        return np.ones(len(surfaces))

    def points_on_faces(
        self, faces: Sequence[str], n: int, *, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return about n points on these faces, at least one on each, and outward normals."""
        chosen = [s for s in self._surfaces if any(map(s.answers_to, faces))]
        return self._on_surfaces(chosen, max(n, len(chosen)), method, rng, what="boundary")

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of the 2d faces, such as "x=lower" and "x=upper" of the axis x.

        Conditions also accept "left" and "right" for the first axis, "bottom" and "top" for the
        second, and "front" and "back" for the third. An axis named t or time is not counted; its
        faces are "initial" and "final".
        """
        return tuple(f"{name}={end}" for name in self.names for end in ("lower", "upper"))

    @property
    def _aliases(self) -> tuple[str, ...]:
        """Further names of the faces, in their order; an empty text where there is none."""
        found: list[str] = []
        sides = iter(_SIDES)
        for name in self.names:
            time = name.lower() in _TIMES
            found += ("initial", "final") if time else next(sides, ("", ""))
        return tuple(found)

    def on_faces(
        self, x: FloatArray, faces: Sequence[str], normals: FloatArray | None = None
    ) -> BoolArray:
        """Return which points lie on one of these faces; see `BoundedRegion` (local)."""
        points, found = self.snap(x), np.zeros(len(x), np.bool_)
        for name in (faces,) if isinstance(faces, str) else faces:
            known = self.faces if name in self.faces else self._aliases
            if not name or name not in known:
                raise self._no_face(name)
            axis, upper = divmod(known.index(name), 2)
            bound = self.upper if upper else self.lower
            near = points[:, axis] == bound[axis]
            if normals is not None:
                near &= normals[:, axis] * (1 if upper else -1) > 0
            found |= near
        return found

    def snap(self, x: npt.ArrayLike) -> FloatArray:
        """Move points onto the faces if they miss them by rounding (local)."""
        points = self._as_points(x, "snap")
        for bound in (self.lower, self.upper):
            points = np.where(np.abs(points - bound) <= self._tolerance, bound, points)
        return points

    def outward_normals(self, x: npt.ArrayLike) -> FloatArray:
        """Return outward unit normals at points of the boundary: x: [n, d] -> [n, d] (local)."""
        points = self.snap(x)
        on_upper, on_lower = points == self.upper, points == self.lower
        normals = on_upper.astype(np.float64) - on_lower
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.asarray(normals / np.maximum(length, 1.0))

    def on_boundary(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points lie on the boundary, up to rounding: x: [n, d] -> [n] (local)."""
        return np.asarray(self.outward_normals(x).any(axis=1))

    def on_edges(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points of the boundary lie on several faces: x: [n, d] -> [n] (local)."""
        return np.asarray(np.count_nonzero(self.outward_normals(x), axis=1) > 1)

    @property
    def _surfaces(self) -> tuple[Surface, ...]:
        each = zip(faces_of(self.lower, self.upper), self.faces, self._aliases, strict=True)
        return tuple(
            BoxFace(face, self.lower, self.upper, (name,), (alias,) if alias else ())
            for face, name, alias in each
        )

    @property
    def _tolerance(self) -> FloatArray:
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return np.minimum(ROUNDING * np.maximum(largest, self.extent), self.extent / 4)
