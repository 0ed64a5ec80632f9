"""The faces of a box, and points on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.region import lattice
from sciml_par.problems.domains.surfaces.sampling import proportional
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface, all_kept


class Face(NamedTuple):
    """The face x_axis = position of a box; its outward normal is sign times the axis."""

    axis: int
    position: float
    sign: float


def faces_of(lower: FloatArray, upper: FloatArray) -> list[Face]:
    """Return the 2d faces, the lower before the upper one of each axis."""
    return [
        Face(axis, float(bound[axis]), sign)
        for axis in range(len(lower))
        for bound, sign in ((lower, -1.0), (upper, 1.0))
    ]


class BoxFace(Surface):
    """A face of a box as a part of a boundary; see `Surface`."""

    def __init__(
        self,
        face: Face,
        lower: FloatArray,
        upper: FloatArray,
        names: tuple[str, ...],
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.face, self._lower, self._upper = face, lower, upper
        self.names, self.aliases = names, aliases
        self.coordinates = len(lower) - 1
        self._normal = np.zeros(len(lower))
        self._normal[face.axis] = face.sign

    @property
    def measure(self) -> float:
        return float(np.prod(np.delete(self._upper - self._lower, self.face.axis)))

    def place(self, unit: FloatArray) -> OnSurface:
        axis, position, _ = self.face
        low, high = np.delete(self._lower, axis), np.delete(self._upper, axis)
        # lower + extent may round to just above upper.
        x = np.insert(np.minimum(low + (high - low) * unit, high), axis, position, axis=1)
        return all_kept(x, self._normals(len(unit)))

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        cells = proportional(np.ones(self.coordinates), n, least=1)
        unit = lattice(np.zeros(self.coordinates), np.ones(self.coordinates), cells, ends=False)
        return self.place(unit)[:2]

    def project(self, x: FloatArray) -> OnSurface:
        foot = np.clip(x, self._lower, self._upper)
        foot[:, self.face.axis] = self.face.position
        return all_kept(foot, self._normals(len(x)))

    def levels(self, name: str) -> list[Level]:  # noqa: ARG002
        return [Level.plane(self._normal, self._normal**2 * self.face.position)]

    def _normals(self, n: int) -> FloatArray:
        return np.repeat(self._normal[None], n, axis=0)
