"""Bodies in space whose boundary is given as triangles, as CAD programs write them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number
from sciml_par._optional import needed
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.mesh_files import in_plane, named_cells, opened
from sciml_par.problems.domains.surfaces.sampling import unit_points
from sciml_par.problems.domains.surfaces.surface import OnSurface, Surface, all_kept

SURFACE = "surface"
_EDGE = 1e-9
"""Barycentric coordinates below which a point lies on an edge."""
_OF_SURFACES = (".stl", ".obj", ".ply", ".off")


class Mesh(Domain):
    """A closed body in space, bounded by triangles; immutable.

    trimesh does the computations (``pip install 'sciml-par[files]'``). Surfaces of boxes and other
    solids with a formula are exact as such; here curved ones are those of the triangles.

    Parameters
    ----------
    source : path, trimesh.Trimesh or meshio.Mesh
        A closed surface (.stl, .obj, .ply, .off), or tetrahedra whose outer triangles are taken
        (.msh, .vtu, .vtk and others that meshio reads). Of a file with triangles that have names,
        the physical groups of Gmsh, these are the faces; otherwise the only face is "surface".
    scale : float
        By which coordinates are multiplied, as 0.001 for millimetres in metres.
    names : sequence of 3 strings, optional
        Of the coordinates; as for `Box`.

    Raises
    ------
    InputError
        The file cannot be read or has no triangles, or the surface is not closed.

    Examples
    --------
    >>> import trimesh
    >>> from sciml_par.problems import Mesh
    >>> brick = Mesh(trimesh.creation.box([1, 2, 3]))
    >>> round(brick.volume, 12), round(brick.surface, 12), brick.faces
    (6.0, 22.0, ('surface',))
    """

    def __init__(
        self, source: Any, *, scale: float = 1.0, names: Sequence[str] | None = None
    ) -> None:
        factor = checked_number(scale, "Mesh: scale")
        if factor <= 0:
            raise InputError(f"Mesh: expected scale to be positive; got {scale!r}.")
        points, triangles, groups = _read(source)
        trimesh = needed("trimesh", "Mesh")
        self._mesh = trimesh.Trimesh(points * factor, triangles, process=False)
        self._mesh.merge_vertices()
        self._groups = groups
        self._check()
        lower, upper = self._mesh.bounds
        self._bounds = np.array(lower), np.array(upper)
        self._names = names_of_axes(names, 3, "Mesh")

    @property
    def volume(self) -> float:
        """The volume within the triangles."""
        return float(self._mesh.volume)

    @functools.cached_property
    def _key(self) -> Hashable:
        groups = tuple((name, rows.tobytes()) for name, rows in self._groups.items())
        return "mesh", self._mesh.vertices.tobytes(), self._mesh.faces.tobytes(), groups

    def __repr__(self) -> str:
        numbers = np.asarray(self._mesh.triangles).tobytes()
        digest = hashlib.blake2b(numbers).hexdigest()[:12]
        return f"Mesh(<{len(self._mesh.faces)} triangles, digest {digest}>{self._names_argument})"

    def _check(self) -> None:
        mesh = self._mesh
        if not mesh.is_watertight:
            edges, counts = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
            open_edge = edges[counts != 2][0]
            at = mesh.vertices[open_edge].mean(axis=0)
            raise InputError(
                f"Mesh: the surface is not closed (not watertight): {np.sum(counts != 2)} of "
                f"{len(edges)} edges do not belong to two triangles, one of them near "
                f"{np.round(at, 6).tolist()}. Repair it where it was made, or by "
                f"trimesh.repair.fill_holes."
            )
        if not mesh.is_winding_consistent or mesh.volume < 0:
            needed("trimesh", "Mesh").repair.fix_normals(mesh)
        if not mesh.volume > 0:
            raise InputError("Mesh: the surface encloses no volume.")

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        inside = np.zeros(len(x), np.bool_)
        around = np.all((x >= self.lower) & (x <= self.upper), axis=1)
        if around.any():
            inside[around] = self._mesh.contains(x[around])
        if margin == 0:
            return inside
        # A point within the margin is no farther from a corner than the longest edge.
        rows = ~inside if margin > 0 else inside
        rows = rows & (self._corners.query(x)[0] <= self._longest + abs(margin))
        if rows.any():
            trimesh = needed("trimesh", "Mesh")
            distance = trimesh.proximity.closest_point(self._mesh, x[rows])[1]
            inside[rows] = distance <= margin if margin > 0 else distance >= -margin
        return inside

    @functools.cached_property
    def _corners(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self._mesh.vertices)

    @functools.cached_property
    def _longest(self) -> float:
        return float(self._mesh.edges_unique_length.max())

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        if not self._groups:
            return (Triangles(self._mesh, SURFACE),)
        return tuple(
            Triangles(self._mesh.submesh([rows], append=True, repair=False), name)
            for name, rows in self._groups.items()
        )


class Triangles(Surface):
    """The triangles of a `trimesh.Trimesh` as a surface with one name; see `Surface`."""

    coordinates = 3

    def __init__(self, mesh: Any, name: str) -> None:
        self.mesh, self.names = mesh, (name,)
        self._ends = np.cumsum(mesh.area_faces)

    @property
    def measure(self) -> float:
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

    @functools.cached_property
    def _normals(self) -> FloatArray:
        return np.asarray(self.mesh.face_normals, np.float64)


def _read(source: Any) -> tuple[FloatArray, npt.NDArray[np.int64], dict[str, Any]]:
    """Return points [n, 3], triangles [k, 3], and the rows of those in named groups."""
    name, found = "", source
    if not hasattr(source, "faces") or not hasattr(source, "vertices"):
        name, found = opened(source, "Mesh", _OF_SURFACES)
    if hasattr(found, "vertices"):
        return np.array(found.vertices, np.float64), np.array(found.faces), {}
    return _of_cells(found, name)


def _of_cells(mesh: Any, name: str) -> tuple[FloatArray, npt.NDArray[np.int64], dict[str, Any]]:
    """Return the outer triangles of tetrahedra, or all triangles; those of groups first."""
    points = np.asarray(mesh.points, np.float64)
    solids = [np.asarray(c.data) for c in mesh.cells if c.type == "tetra"]
    flat = [np.asarray(c.data) for c in mesh.cells if c.type == "triangle"]
    if in_plane(points) or not (solids or flat):
        raise InputError(
            f"Mesh: {name} has neither tetrahedra nor triangles in space; a mesh in the plane is "
            f"read by Polygon.from_file."
        )
    outer = _outer(np.concatenate(solids)) if solids else np.concatenate(flat)
    sets = {tuple(sorted(t)): k for k, t in enumerate(outer.tolist())}
    rows: dict[str, list[int]] = {}
    for label, _, triangles in named_cells(mesh, 2, "triangle"):
        inside = [sets[key] for t in triangles.tolist() if (key := tuple(sorted(t))) in sets]
        rows.setdefault(label, []).extend(inside)
    groups: dict[str, Any] = {label: np.array(each) for label, each in rows.items() if each}
    if groups:
        left = np.setdiff1d(np.arange(len(outer)), np.concatenate(list(groups.values())))
        groups |= {SURFACE: left} if len(left) else {}
    return points, outer, groups


def _outer(solids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the triangles that belong to one tetrahedron only, with outward normals: [k, 3]."""
    faces = np.concatenate([solids[:, c] for c in ([0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2])])
    _, first, counts = np.unique(
        np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True
    )
    return np.asarray(faces[first[counts == 1]])
