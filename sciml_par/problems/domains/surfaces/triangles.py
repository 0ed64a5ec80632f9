"""Triangles in space as a part of a boundary."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._optional import needed
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.surfaces.sampling import unit_points
from sciml_par.problems.domains.surfaces.surface import OnSurface, Surface, all_kept

IntArray = npt.NDArray[np.int64]

_EDGE = 1e-9
"""Barycentric coordinates below which a point lies on an edge."""


class Triangles(Surface):
    """The triangles of a `trimesh.Trimesh` as a surface with one name; see `Surface`."""

    coordinates = 3

    def __init__(self, mesh: Any, name: str) -> None:
        self.mesh, self.names = mesh, (name,)
        self._ends = np.cumsum(mesh.area_faces)

    @property
    def measure(self) -> float:
        """Its area."""
        return float(self._ends[-1])

    def place(self, unit: FloatArray) -> OnSurface:
        """See `Surface`; the first number chooses the triangle (Osada et al. 2002)."""
        chosen = np.searchsorted(self._ends, unit[:, 0] * self._ends[-1], side="right")
        chosen = np.minimum(chosen, len(self._ends) - 1)
        root = np.sqrt(unit[:, 1:2])
        weights = np.concatenate([1 - root, root * (1 - unit[:, 2:]), root * unit[:, 2:]], axis=1)
        x = np.einsum("nc,ncd->nd", weights, self.mesh.triangles[chosen])
        return all_kept(x, self._normals[chosen])

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        """See `Surface`; the triangles in their order, at points of Halton's sequence."""
        unit = unit_points("halton", n, 2, np.random.default_rng(0))
        first = (np.arange(n) + 0.5) / n
        inside = np.clip(unit, 0.02, 0.98)
        return self.place(np.concatenate([first[:, None], inside], axis=1))[:2]

    def project(self, x: FloatArray) -> OnSurface:
        trimesh = needed("trimesh", "Mesh")
        foot, _, triangle = trimesh.proximity.closest_point(self.mesh, x)
        corners = self.mesh.triangles[triangle]
        weights = trimesh.triangles.points_to_barycentric(corners, foot)
        normals = self._normals[triangle].copy()
        faces, small = self.mesh.faces, weights < _EDGE
        for row in np.flatnonzero(small.any(axis=1)):
            # At an edge or a corner, the mean over the triangles that meet there.
            ends = faces[triangle[row]][~small[row]]
            around = self.mesh.vertex_faces[ends[0]]
            shared = set(ends.tolist())
            meeting = [f for f in around[around >= 0] if shared <= set(faces[f].tolist())]
            normals[row] = self._normals[meeting].mean(axis=0)
        return all_kept(foot, normals)

    @cached_property
    def _normals(self) -> FloatArray:
        return np.asarray(self.mesh.face_normals, np.float64)
