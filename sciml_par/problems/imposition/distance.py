"""Smooth functions that are zero on faces of a domain, and nowhere else in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.surface import Level

_MOST_FACES = 12
_SEEN = 4096
"""Points at which the sign and the size of φ are seen."""


@dataclass(frozen=True)
class Factor:
    """s^power with s = (x_axis − start)/length, which is 0 on a face and 1 on the opposite one."""

    axis: int
    start: float
    length: float
    power: int = 1

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Compute the factor at x: [n, d] -> [n, 1]."""
        s = (x[:, self.axis : self.axis + 1] - self.start) / self.length
        return s**self.power if self.power > 1 else s


@dataclass(frozen=True, eq=False)
class OfLevel:
    """A polynomial that is 0 on a face, as a factor."""

    level: Level

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Compute the factor at x: [n, d] -> [n, 1]."""
        square, linear, constant = (tf.constant(each, x.dtype) for each in self.level)
        bent = tf.reduce_sum(x @ square * x, axis=1, keepdims=True)
        return bent + x @ linear[:, None] + constant


@dataclass(frozen=True)
class Distance:
    """φ(x) = scale · Π of some factors: zero on their faces; see `distance_to`."""

    factors: tuple[Factor | OfLevel, ...]
    scale: float = 1.0

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Compute the factor at x: [n, d] -> [n, 1]."""
        product = tf.fill(tf.shape(x[:, :1]), tf.constant(self.scale, x.dtype))
        product = tf.ensure_shape(product, [x.shape[0], 1])
        for factor in self.factors:
            product *= factor(x)
        return product


def distance_to(domain: Domain, on: str | Sequence[str] | None = None) -> Distance:
    """Return a smooth function φ that is 0 on faces of a domain and positive inside (local).

    φ(x) = Π s over the faces. Of a box, s = |x_i − face|/(upper_i − lower_i), times 4 for each axis
    with both faces, so that φ is at most 1. Of other domains, s is linear for each straight edge
    and 1 − |S (x − c)|² for balls and ellipses, and φ is at most about 1. It is dimensionless, not
    a length. On these faces alone, it is 0 to first order.

    Parameters
    ----------
    domain : Domain
        A `Box`, a `Ball`, an `Ellipse`, a convex `Polygon`, one of them without balls and ellipses,
        an intersection of them, or one of these over a `Time` or `Extruded`.
    on : str or sequence of str, optional
        Names of faces; by default all.

    Returns
    -------
    callable x: [n, d] -> [n, 1]

    Raises
    ------
    InputError
        The domain has no face of this name, faces of another kind or too many, or faces whose
        continuation crosses the domain, as at an inward corner.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Interval, distance_to
    >>> distance_to(Interval(0, 2))(tf.constant([[0.0], [1.0], [1.5]])).numpy().ravel().tolist()
    [0.0, 1.0, 0.75]
    """
    if not isinstance(domain, Domain):
        raise InputError(f"distance_to: expected a domain; got {domain!r}")
    names = domain.faces if on is None else (on,) if isinstance(on, str) else on
    if not isinstance(names, Sequence):
        raise InputError(f"distance_to: on must be the name of a face, or several; got {on!r}")
    if not isinstance(domain, Box):
        return _of_levels(domain, None if on is None else names)
    faces = [surface.face for surface in domain.named_surfaces(names)]
    return product_of(
        Factor(face.axis, face.position, -face.sign * float(domain.extent[face.axis]))
        for face in faces
    )


def _of_levels(domain: Domain, names: Sequence[str] | None) -> Distance:
    """Return φ by the polynomials of faces, all or those named."""
    domain.on_faces(np.empty((0, domain.dimension)), names or ())
    pairs = [
        (surface, name)
        for surface in domain.surfaces()
        for name in (surface.names[:1] if names is None else filter(surface.answers_to, names))
    ]
    made = [surface.levels(name) for surface, name in pairs]
    known = [level for levels in made if levels is not None for level in levels]
    levels = list({(q.square.tobytes(), q.linear.tobytes(), q.constant): q for q in known}.values())
    write = "; write a function x: [n, d] -> [n, 1] that is 0 there only"
    if None in made or len(levels) > _MOST_FACES:
        raise InputError(
            f"distance_to: expected up to {_MOST_FACES} faces that are flat or parts of "
            f"ellipsoids; {domain} has others{write}"
        )
    factors = tuple(map(OfLevel, levels))
    inside = tf.constant(domain.sample(_SEEN, seed=0))
    values = Distance(factors)(inside).numpy()[:, 0]
    largest = values[np.argmax(np.abs(values))]
    if (values / largest).min() <= 0:
        at = inside.numpy()[np.argmin(values / largest)].round(3).tolist()
        raise InputError(
            f"distance_to: the continuation of a face crosses {domain}, as φ has both signs there: "
            f"one of them near {at}{write}"
        )
    return Distance(factors, 1 / float(largest))


def product_of(factors: Iterable[Factor]) -> Distance:
    """Return φ of these factors, with the scale 4 for each axis with both faces."""
    found = tuple(factors)
    axes = [factor.axis for factor in found]
    return Distance(found, 4.0 ** sum(axes.count(axis) == 2 for axis in set(axes)))
