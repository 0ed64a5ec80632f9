"""Smooth functions that are zero on faces of a box, and nowhere else in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.conditions.drawing import faces_named
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain


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


@dataclass(frozen=True)
class Distance:
    """φ(x) = scale · Π of some factors: zero on their faces; see `distance_to`."""

    factors: tuple[Factor, ...]
    scale: float = 1.0

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Compute the factor at x: [n, d] -> [n, 1]."""
        product = tf.fill(tf.shape(x[:, :1]), tf.constant(self.scale, x.dtype))
        product = tf.ensure_shape(product, [x.shape[0], 1])
        for factor in self.factors:
            product *= factor(x)
        return product


def distance_to(domain: Domain, on: str | Sequence[str] | None = None) -> Distance:
    """Return a smooth function φ that is 0 on faces of a box and positive elsewhere in it (local).

    φ(x) = Π s over the faces, with s = |x_i − face|/(upper_i − lower_i), times 4 for each axis with
    both faces, so that φ is at most 1. It is dimensionless, not a length. On these faces alone, it
    is 0 to first order.

    Parameters
    ----------
    domain : Box
    on : str or sequence of str, optional
        Names of faces; by default all.

    Returns
    -------
    callable x: [n, d] -> [n, 1]

    Raises
    ------
    InputError
        The domain is not a box, or has no face of this name.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Interval, distance_to
    >>> distance_to(Interval(0, 2))(tf.constant([[0.0], [1.0], [1.5]])).numpy().ravel().tolist()
    [0.0, 1.0, 0.75]
    """
    if not isinstance(domain, Box):
        raise InputError(
            f"distance_to: the faces are those of a Box; for {domain} write a function "
            f"x: [n, d] -> [n, 1] that is 0 on its boundary only"
        )
    names = domain.faces if on is None else (on,) if isinstance(on, str) else on
    if not isinstance(names, Sequence):
        raise InputError(f"distance_to: on must be the name of a face, or several; got {on!r}")
    faces = faces_named(domain, names)
    return product_of(
        Factor(face.axis, face.position, -face.sign * float(domain.extent[face.axis]))
        for face in faces
    )


def product_of(factors: Iterable[Factor]) -> Distance:
    """Return φ of these factors, with the scale 4 for each axis with both faces."""
    found = tuple(factors)
    axes = [factor.axis for factor in found]
    return Distance(found, 4.0 ** sum(axes.count(axis) == 2 for axis in set(axes)))
