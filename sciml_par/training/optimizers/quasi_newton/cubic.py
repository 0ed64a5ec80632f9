"""Where to try next on a line, from values and slopes at two points."""

from __future__ import annotations

from typing import Any, NamedTuple

from sciml_par._tensorflow import tf

Tensor = Any

# Shares of an interval: a point nearer to an end than this brings too little.
_MARGIN = 0.1
# How far a point may lie beyond the last one, in units of the last step along the line.
_LEAST_BEYOND, _MOST_BEYOND = 1.1, 9.0


class Point(NamedTuple):
    """A point of a line for each of M members: φ(α) and φ'(α).

    Attributes
    ----------
    length : α ≥ 0, [M].
    value : φ(α), [M]; infinite where it is not finite.
    slope : φ'(α), [M]; zero where it is not finite.
    """

    length: Tensor
    value: Tensor
    slope: Tensor

    def where(self, chosen: Tensor, other: Point) -> Point:
        """This point for the members that are chosen, [M], the other one for the rest."""
        return Point(*(tf.where(chosen, a, b) for a, b in zip(self, other, strict=True)))


def minimizer(a: Point, b: Point) -> Tensor:
    """The local minimizer of the cubic with these values and slopes, [M].

    Nocedal and Wright (2006), eq. 3.59. Not finite where the cubic has none.
    """
    width = b.length - a.length
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length)
    d2 = tf.sign(width) * tf.sqrt(d1 * d1 - a.slope * b.slope)
    return b.length - width * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)


def between(low: Point, high: Point, *, halve: Tensor) -> Tensor:
    """A length between two points, away from both, [M].

    Parameters
    ----------
    low : the better one.
    halve : for which members it is to be the middle, [M].
    """
    width = high.length - low.length
    share = (minimizer(low, high) - low.length) / width
    share = tf.clip_by_value(share, _MARGIN, 1 - _MARGIN)
    share = tf.where(halve | ~tf.math.is_finite(share), tf.constant(0.5, share.dtype), share)
    # Where there is no number at all, the good lengths are far shorter.
    far = tf.math.is_finite(high.value) | (low.length > 0)
    share = tf.where(far, share, tf.constant(_MARGIN, share.dtype))
    return low.length + share * width


def beyond(before: Point, last: Point) -> Tensor:
    """A length greater than that of the last point, where the function still falls, [M]."""
    step = last.length - before.length
    least, most = last.length + _LEAST_BEYOND * step, last.length + _MOST_BEYOND * step
    found = minimizer(before, last)
    ahead = tf.math.is_finite(found) & (found > last.length)
    return tf.where(ahead, tf.clip_by_value(found, least, most), most)
