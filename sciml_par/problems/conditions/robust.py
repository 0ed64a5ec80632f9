"""Errors as the least squares of an optimizer see them, so that outliers pull less."""

from __future__ import annotations

from collections.abc import Callable

from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf

HUBER_AT = 1.345
"""δ, for which the estimate of a mean has 95 % of its efficiency under normal errors."""
DEGREES = 4.0
"""ν of Student's t distribution."""
_TINY = 1e-6


def huber(r: Tensor) -> Tensor:
    """Return s: [k, c] of errors r, where s² is Huber's ρ (local).

        s = r                               |r| ≤ δ
        s = sign(r) √(2 δ |r| − δ²)         |r| > δ

    s and ds/dr are continuous. Huber, Ann. Math. Statist. 35, 1964.
    """
    delta = tf.constant(HUBER_AT, r.dtype)
    # The branch that is not taken must have a finite derivative as well.
    size = tf.maximum(tf.abs(r), delta)
    outside = tf.sign(r) * tf.sqrt(2 * delta * size - delta**2)
    return tf.where(tf.abs(r) <= delta, r, outside)


def student(r: Tensor) -> Tensor:
    """Return s: [k, c] of errors r: s² = ν log(1 + r²/ν), and s ≈ r near 0 (local).

    It is −2 log of Student's t density with ν degrees of freedom, multiplied by ν/(ν + 1). Lange,
    Little and Taylor, J. Am. Stat. Assoc. 84, 1989.
    """
    nu = tf.constant(DEGREES, r.dtype)
    near = tf.abs(r) < _TINY
    safe = tf.where(near, tf.ones_like(r), r)  # at 0 the derivative of the root would be 0/0
    return tf.where(near, r, tf.sign(safe) * tf.sqrt(nu * tf.math.log1p(safe**2 / nu)))


LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "squares": lambda r: r,
    "huber": huber,
    "student": student,
}
