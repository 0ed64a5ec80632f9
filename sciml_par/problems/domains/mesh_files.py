"""Meshes of meshio: their files, their named groups of cells, and the boundary of a plane one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._optional import needed
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.surfaces.ring import signed_area

Cells = npt.NDArray[np.int64]

OF_CELLS = (".msh", ".vtu", ".vtk", ".inp", ".mesh")
_SIDES = {
    "triangle": [(0, 1), (1, 2), (2, 0)],
    "quad": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "triangle6": [(0, 3), (3, 1), (1, 4), (4, 2), (2, 5), (5, 0)],
    "quad8": [(0, 4), (4, 1), (1, 5), (5, 2), (2, 6), (6, 3), (3, 7), (7, 0)],
    "quad9": [(0, 4), (4, 1), (1, 5), (5, 2), (2, 6), (6, 3), (3, 7), (7, 0)],
    "line": [(0, 1)],
    "line3": [(0, 2), (2, 1)],
}
"""The nodes at the ends of the straight sides of a cell; a curved side has two, by its middle."""
_STRAIGHT = 1e-9
"""The sine of the angle up to which two edges of one name are one edge."""


class MeshRing(NamedTuple):
    """A closed line: corners [n, 2], and of each edge the name of its group, or ""."""

    corners: FloatArray
    names: tuple[str, ...]


def opened(source: Any, where: str, surfaces: Sequence[str] = ()) -> tuple[str, Any]:
    """Return the name and the mesh of a file, or of one of meshio.

    Files of surfaces, with these endings, are read by trimesh, all others by meshio.
    """
    if hasattr(source, "cells") and hasattr(source, "points"):
        return "this mesh", source
    if not isinstance(source, str | Path):
        kinds = "the path of a file, a trimesh.Trimesh" if surfaces else "the path of a file"
        raise InputError(
            f"{where}: expected {kinds} or a meshio.Mesh; got {type(source).__name__}."
        )
    path, known = Path(source), (*surfaces, *OF_CELLS)
    ending = path.suffix.lower()
    if ending not in known:
        raise InputError(
            f"{where}: expected a file with the ending {', '.join(known)}; got {path.name!r}."
        )
    library = needed("trimesh" if ending in surfaces else "meshio", where)
    try:
        return path.name, (library.load_mesh if ending in surfaces else library.read)(path)
    except Exception as error:  # of many kinds
        raise InputError(f"{where}: cannot read {path}: {one_line(error)}") from None


def named_cells(mesh: Any, dimension: int, *types: str) -> Iterator[tuple[str, str, Cells]]:
    """Return the cells of the physical groups of Gmsh: name, type and nodes."""
    tags = mesh.cell_data.get("gmsh:physical")
    for label, (number, of) in getattr(mesh, "field_data", {}).items():
        if tags is None or of != dimension:
            continue
        for cells, tag in zip(mesh.cells, tags, strict=True):
            if cells.type in types:
                yield label, cells.type, np.asarray(cells.data)[np.asarray(tag) == number]


def in_plane(points: FloatArray) -> bool:
    """Return whether points have two coordinates, or all the same third one."""
    return points.shape[1] == 2 or not np.ptp(points[:, 2])


def rings_of(source: Any, where: str) -> list[MeshRing]:
    """Return the closed lines around a mesh in the plane, the longest way around first."""
    name, mesh = opened(source, where)
    points, same = np.unique(np.asarray(mesh.points, np.float64), axis=0, return_inverse=True)
    faces = [c for c in mesh.cells if c.type in _SIDES and not c.type.startswith("line")]
    sides = [same.ravel()[_sides(c.type, np.asarray(c.data))] for c in faces]
    if not sides or not in_plane(points[np.unique(np.concatenate(sides))]):
        raise InputError(
            f"{where}: {name} has no triangles or quadrilaterals in a plane z = constant; a body "
            f"in space is a Mesh."
        )
    both = np.sort(np.concatenate(sides), axis=1)
    edges, counts = np.unique(both, axis=0, return_counts=True)
    names: dict[tuple[int, ...], str] = {}
    for label, kind, cells in named_cells(mesh, 1, "line", "line3"):
        for edge in map(tuple, np.sort(same.ravel()[_sides(kind, cells)], axis=1).tolist()):
            if names.setdefault(edge, label) != label:
                at = points[edge[0], :2].round(6).tolist()
                raise InputError(
                    f"{where}: in {name} an edge near {at} is in the groups {names[edge]!r} and "
                    f"{label!r}; expected one group for each edge."
                )
    walks = _walks(edges[counts == 1], points, f"{where}: {name}")
    rings = [_ring(walk, points[:, :2], names) for walk in walks]
    outer, *holes = sorted(rings, key=lambda ring: -abs(signed_area(ring.corners)))
    import shapely

    within = shapely.Polygon(outer.corners)
    for hole in holes:
        if not within.contains(shapely.Point(hole.corners[0])):
            raise InputError(
                f"{where}: {name} is in several pieces, one of them at "
                f"{hole.corners[0].round(6).tolist()}; expected one. Read them from separate "
                f"files, and unite them: Polygon(...) | Polygon(...)"
            )
    return [outer, *holes]


def _sides(kind: str, cells: Cells) -> Cells:
    """Return the sides of all cells: [k, 2]."""
    return np.concatenate([cells[:, list(side)] for side in _SIDES[kind]])


def _walks(edges: Cells, points: FloatArray, what: str) -> Iterator[list[int]]:
    """Return the nodes along each closed line of edges: [k, 2]."""
    next_to: dict[int, list[int]] = {}
    for a, b in edges.tolist():
        next_to.setdefault(a, []).append(b)
        next_to.setdefault(b, []).append(a)
    for node, others in next_to.items():
        if len(others) != 2:
            raise InputError(
                f"{what} touches itself at {points[node, :2].round(6).tolist()}, where "
                f"{len(others)} edges of the boundary meet; expected two. Read parts that meet "
                f"in a point from separate files, and unite them: Polygon(...) | Polygon(...)"
            )
    while next_to:
        walk, node = [], next(iter(next_to))
        while node in next_to:
            walk.append(node)
            one, other = next_to.pop(node)
            node = one if one in next_to else other
        yield walk


def _ring(walk: list[int], points: FloatArray, names: dict[tuple[int, ...], str]) -> MeshRing:
    """Return a closed line, in which straight edges of one name are one edge."""
    after = [*walk[1:], walk[0]]
    of = [names.get(tuple(sorted(edge)), "") for edge in zip(walk, after, strict=True)]
    along = points[after] - points[walk]
    before = np.roll(along, 1, axis=0)
    cross = before[:, 0] * along[:, 1] - before[:, 1] * along[:, 0]
    sizes = np.linalg.norm(before, axis=1) * np.linalg.norm(along, axis=1)
    straight = (np.abs(cross) <= _STRAIGHT * sizes) & (np.sum(before * along, axis=1) > 0)
    kept = [k for k, name in enumerate(of) if not (straight[k] and of[k - 1] == name)]
    return MeshRing(points[np.array(walk)[kept]], tuple(of[k] for k in kept))
