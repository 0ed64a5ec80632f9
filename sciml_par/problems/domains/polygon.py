"""Polygons with holes in the plane."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, checked_points
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.mesh_files import rings_of
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.ring import Ring, signed_area
from sciml_par.problems.domains.surfaces.surface import Surface

_RESERVED = re.compile(r"initial|final|outer|hole \d+|(hole \d+ )?edge \d+")
_SHOWN = 12  # vertices; of more, the text of a polygon has a digest


class Polygon(Domain):
    """A closed polygon in the plane, with or without holes; immutable.

    Its faces are "outer", "hole 1", "hole 2", …, and their edges "edge 1", "edge 2", … and
    "hole 1 edge 1", …. Edge k joins vertex k and the next one. shapely does the computations.

    Parameters
    ----------
    vertices : array-like [n, 2]
        Corners in order, clockwise or anticlockwise, n >= 3. The first one may be repeated at the
        end.
    holes : sequence of such arrays
        Inside, and apart from one another.
    names : sequence of 2 strings, optional
        Of the coordinates; as for `Box`.

    Raises
    ------
    InputError
        Edges cross or touch, the area is zero, or a hole is not inside.

    Examples
    --------
    >>> from sciml_par.problems import Polygon
    >>> frame = Polygon(
    ...     [[0, 0], [3, 0], [3, 3], [0, 3]], holes=[[[1, 1], [2, 1], [2, 2], [1, 2]]]
    ... )
    >>> frame.volume, frame.surface, frame.faces[:2]
    (8.0, 16.0, ('outer', 'edge 1'))
    """

    def __init__(
        self,
        vertices: npt.ArrayLike,
        *,
        holes: Sequence[npt.ArrayLike] = (),
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(vertices, str | Path):
            raise InputError(
                f"Polygon: a plane mesh is read by Polygon.from_file({str(vertices)!r}); vertices "
                f"are an array [n, 2]."
            )
        self._outer = _corners(vertices, "Polygon: vertices")
        if not isinstance(holes, (Sequence, np.ndarray)):
            raise InputError(
                f"Polygon: holes must be a sequence of arrays of corners [n, 2], one for each "
                f"hole; got {holes!r}"
            )
        self._holes = tuple(_corners(hole, f"Polygon: holes[{i}]") for i, hole in enumerate(holes))
        self._bounds = self._outer.min(axis=0), self._outer.max(axis=0)
        self._names = names_of_axes(names, 2, "Polygon")
        self._edge_names: tuple[tuple[str, ...], ...] = ((),) * (1 + len(self._holes))
        self._check()

    @classmethod
    def from_file(
        cls, source: Any, *, scale: float = 1.0, names: Sequence[str] | None = None
    ) -> Polygon:
        """Return the region of a mesh in the plane; meshio reads it (local).

        Edges of a physical group of Gmsh have its name, as in ``Dirichlet(1.0, on="inlet")``. The
        others have those of `Polygon`. Straight edges in a row with one name are one edge.

        Parameters
        ----------
        source : path or meshio.Mesh
            Triangles or quadrilaterals (.msh, .vtu, .vtk and others) with one outer boundary.
        scale : float
            By which coordinates are multiplied, as 0.001 for millimetres in metres.
        names : as for `Polygon`.

        Raises
        ------
        InputError
            The file cannot be read, has no plane cells, or touches itself or is in several pieces;
            or meshio is not installed (``pip install 'sciml-par[files]'``).
        """
        where = "Polygon.from_file"
        factor = checked_number(scale, f"{where}: scale")
        if factor <= 0:
            raise InputError(f"{where}: expected scale to be positive; got {scale!r}.")
        outer, *holes = rings_of(source, where)
        try:
            found = cls(
                outer.corners * factor, holes=[h.corners * factor for h in holes], names=names
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        found._edge_names = (outer.names, *(hole.names for hole in holes))
        for ring, edges in zip(["outer", *found._hole_names], found._edge_names, strict=True):
            for label in set(edges) - {""}:
                if _RESERVED.fullmatch(label) and set(edges) != {ring}:
                    raise InputError(
                        f"{where}: {label!r} is the name that a Polygon or a Time gives to a face; "
                        f"expected another name of this physical group."
                    )
        return found

    @property
    def volume(self) -> float:
        """The area, without the holes."""
        return abs(signed_area(self._outer)) - sum(abs(signed_area(h)) for h in self._holes)

    @functools.cached_property
    def _key(self) -> Hashable:
        corners = tuple(tuple(map(tuple, ring.tolist())) for ring in self._rings)
        named = ((k, names) for k, names in enumerate(self._edge_names) if any(names))
        return ("polygon", *corners, *named)

    @property
    def _rings(self) -> tuple[FloatArray, ...]:
        return (self._outer, *self._holes)

    def __repr__(self) -> str:
        names = self._names_argument
        number = sum(map(len, self._rings))
        if number > _SHOWN:
            digest = hashlib.blake2b(np.concatenate(self._rings).tobytes()).hexdigest()[:12]
            holes = f" and {len(self._holes)} holes" if self._holes else ""
            return f"Polygon(<{number} vertices{holes}, digest {digest}>{names})"
        holes = f", holes={[h.tolist() for h in self._holes]}" if self._holes else ""
        return f"Polygon({self._outer.tolist()}{holes}{names})"

    def _check(self) -> None:
        import shapely

        for ring, what in zip(self._rings, ["the polygon", *self._hole_names], strict=True):
            reason = shapely.is_valid_reason(shapely.Polygon(ring))
            if reason != "Valid Geometry":
                raise InputError(
                    f"Polygon: the edges of {what} must not cross or touch one another, and must "
                    f"enclose an area; shapely finds: {reason}"
                )
        outer = shapely.Polygon(self._outer)
        for hole, what in zip(self._holes, self._hole_names, strict=True):
            if not outer.contains_properly(shapely.Polygon(hole)):
                raise InputError(
                    f"Polygon: {what} must lie inside the polygon and not touch its edges; it "
                    f"reaches from {hole.min(axis=0)} to {hole.max(axis=0)}. Where it does, "
                    f"subtract it: Polygon(...) - Polygon(...)"
                )
        if not shapely.is_valid(self._polygon):
            reason = shapely.is_valid_reason(self._polygon)
            raise InputError(f"Polygon: the holes must lie apart from one another; {reason}")

    @property
    def _hole_names(self) -> list[str]:
        return [f"hole {i + 1}" for i in range(len(self._holes))]

    @functools.cached_property
    def _polygon(self) -> Any:
        import shapely

        geometry = shapely.Polygon(self._outer, self._holes)
        shapely.prepare(geometry)
        return geometry

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        import shapely

        inside = shapely.contains_xy(self._polygon, x[:, 0], x[:, 1])
        if margin == 0:
            return np.asarray(inside)
        rows = ~inside if margin > 0 else inside
        distance = shapely.distance(self._polygon.boundary, shapely.points(x[rows]))
        inside[rows] = distance <= margin if margin > 0 else distance >= -margin
        return np.asarray(inside)

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        rings = zip(self._rings, ["outer", *self._hole_names], self._edge_names, strict=True)
        return tuple(Ring(ring, name, edges) for ring, name, edges in rings)

    def _surely_contains(self, other: Region) -> bool:
        import shapely

        if isinstance(other, Ball) and other.dimension == 2:
            centre = shapely.Point(other.center)
            return bool(
                self._polygon.contains(centre)
                and self._polygon.boundary.distance(centre) >= other.radius
            )
        box = shapely.box(*other.lower, *other.upper)
        return bool(self._polygon.covers(box))

    def _surely_apart(self, other: Region) -> bool:
        import shapely

        if isinstance(other, Ball) and other.dimension == 2:
            return bool(self._polygon.distance(shapely.Point(other.center)) >= other.radius)
        box = shapely.box(*other.lower, *other.upper)
        return not self._polygon.intersects(box)


def _corners(vertices: npt.ArrayLike, what: str) -> FloatArray:
    """Return the corners of a ring, each once."""
    ring = checked_points(vertices, what, d=2)
    if len(ring) > 1 and np.array_equal(ring[0], ring[-1]):
        ring = ring[:-1]
    if len(ring) < 3:
        raise InputError(f"{what} must be at least three corners, got {len(ring)}")
    same = np.all(ring == np.roll(ring, -1, axis=0), axis=1)
    if same.any():
        raise InputError(
            f"{what}: corner {int(np.argmax(same)) + 1} and the next one are the same point "
            f"{ring[np.argmax(same)]}"
        )
    return ring
