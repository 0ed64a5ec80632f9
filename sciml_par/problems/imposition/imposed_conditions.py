"""The ansatz u = g + φ N by which the conditions of a box hold; `impose` makes it.

g is the Boolean sum of the interpolants between opposite faces of Gordon, SIAM J. Numer. Anal. 8
(1971) 158, and φ a product of factors that are 0 on a face each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciml_par import _tape
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.imposition.distance import Distance

Tensor = Any


@dataclass(frozen=True)
class OnFace:
    """What one component has on one face of a box: u = value and perhaps ∂u/∂x_axis = slope."""

    axis: int
    position: float
    upper: bool
    value: Any
    column: int
    slope: Any = None
    name: str = ""

    def moved(self, x: Tensor) -> Tensor:
        """Return points on the face: [n, d] -> [n, d]."""
        here = tf.fill(tf.shape(x[:, :1]), tf.constant(self.position, x.dtype))
        return tf.concat([x[:, : self.axis], here, x[:, self.axis + 1 :]], axis=1)

    def at(self, x: Tensor, which: str = "value") -> Tensor:
        """Return the value or the slope at points on the face: [n, d] -> [n, 1]."""
        given = getattr(self, which)
        if not callable(given):
            number = given[self.column] if isinstance(given, tuple) else given
            return tf.zeros_like(x[:, :1]) + tf.constant(number, x.dtype)
        values = tf.convert_to_tensor(given(x), x.dtype)
        if values.shape.rank == 1:
            values = values[:, None]
        if values.shape.rank != 2 or not self.column < values.shape[1]:
            raise InputError(
                f"{self.name}: {which}(x) must have the shape [n, c], a column for each component, "
                f"got {values.shape}"
            )
        return values[:, self.column : self.column + 1]


@dataclass(frozen=True)
class ImposedComponent:
    """g and φ of one component of u."""

    given: tuple[OnFace, ...]
    distance: Distance
    lower: tuple[float, ...]
    extent: tuple[float, ...]

    def interpolated(self, x: Tensor) -> Tensor:
        """Compute g: [n, d] -> [n, 1], with the values of all faces."""
        return self._from(len(self._axes()), x)

    def _axes(self) -> list[int]:
        return sorted({each.axis for each in self.given})

    def _from(self, count: int, x: Tensor) -> Tensor:
        """Return the Boolean sum over the first `count` axes."""
        if count == 0:
            return tf.zeros_like(x[:, :1])
        axis = self._axes()[count - 1]
        faces = [each for each in self.given if each.axis == axis]
        g = self._from(count - 1, x)
        s = (x[:, axis : axis + 1] - self.lower[axis]) / self.extent[axis]
        for face in faces:
            moved = face.moved(x)
            lacking = face.at(moved) - self._from(count - 1, moved)
            share = 1.0 if len(faces) == 1 else (s if face.upper else 1 - s)
            g += share * lacking
            if face.slope is not None:
                _, slopes = _tape.value_and_jacobian(lambda z: self._from(count - 1, z), moved)
                missing = face.at(moved, "slope") - slopes[:, :, axis]
                g += (x[:, axis : axis + 1] - face.position) * missing
        return g


@dataclass(frozen=True)
class Imposed:
    """An ansatz u_c = g_c + φ_c N_c; see `impose`."""

    components: tuple[ImposedComponent, ...]

    def __call__(self, u: Any, x: Tensor) -> Tensor:
        """Compute u: [n, m] at x: [n, d]."""
        values = u(x)
        if values.shape[1] != len(self.components):
            raise InputError(
                f"impose: the network has {values.shape[1]} components, and the ansatz is for "
                f"{len(self.components)}; write impose(domain, conditions, "
                f"outputs={values.shape[1]}), or the names of the outputs"
            )
        columns = [
            each.interpolated(x) + each.distance(x) * values[:, c : c + 1]
            if each.given
            else values[:, c : c + 1]
            for c, each in enumerate(self.components)
        ]
        return tf.concat(columns, axis=1)
