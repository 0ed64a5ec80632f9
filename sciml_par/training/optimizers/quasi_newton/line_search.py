"""A line search for the strong Wolfe conditions, for several members at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sciml_par._tensorflow import tf

Tensor = Any
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]

_BRACKETING, _ZOOMING, _DONE = 0, 1, 2
# An interval that has kept more than this share of its width is halved next.
_SLOW = 2 / 3
# Shares of an interval: a point nearer to an end than this brings too little.
_MARGIN = 0.1


class Found(NamedTuple):
    """Where a line search has ended."""

    length: Tensor  # α, [M]; 0 where no point with a lower loss was found
    losses: Tensor  # the terms of the loss there, [M, T]
    gradient: Tensor  # ∇L there, [M, p]
    wolfe: Tensor  # whether the point satisfies the conditions, [M]
    evaluations: Tensor  # how many points were tried, a scalar


class _Search(NamedTuple):
    """Where it stands: `low` and `high` enclose the minimum when `stage` is _ZOOMING."""

    stage: Tensor
    trial: Tensor
    low: Point
    high: Point
    width: Tensor
    best: Point
    losses: Tensor
    gradient: Tensor
    wolfe: Tensor
    count: Tensor


def strong_wolfe(
    evaluate: Evaluate,
    parameters: Tensor,
    direction: Tensor,
    losses: Tensor,
    gradient: Tensor,
    first: Tensor,
    *,
    running: Tensor,
    sufficient_decrease: float,
    curvature: float,
    most: int,
    only_here: Tensor | bool = False,
    agreed: Callable[[Tensor], Tensor] = lambda tensor: tensor,
) -> Found:
    """Find a step length α > 0 along d for which, with φ(α) = L(θ + α d),

        φ(α) ≤ φ(0) + c₁ α φ'(0)    and    |φ'(α)| ≤ c₂ |φ'(0)|.

    Nocedal and Wright (2006), algorithms 3.5 and 3.6: steps grow until they enclose such a length,
    and the interval then shrinks around it; lengths come from cubic interpolation. A point without
    a finite loss or slope counts as too far. A member also ends when its interval has become so
    small that the change of the loss within it is rounding error. It is collective, since
    `evaluate` is: all ranks evaluate the same number of times, if they have the same
    arguments. Members that are done wait for the others.

    Parameters
    ----------
    evaluate : the terms of the loss [M, T] and ∇L [M, p] at θ: [M, p].
    parameters, direction : θ and d, [M, p]. If d is not a direction of descent, nothing is found.
    losses, gradient : at θ, [M, T] and [M, p].
    first : the first length to try, [M].
    running : which members take part, [M].
    sufficient_decrease, curvature : 0 < c₁ < c₂ < 1.
    most : how many points to try at most. After that it is the best one that counts, if it is
        better than θ.
    only_here : evaluate at θ and nothing else, and return that; a scalar. A caller who needs this
        before a search can so have both in one loop, and the evaluation is compiled once.
    agreed : gives all ranks what the first one has. Processors of different kinds round apart, and
        ranks that decided by their own numbers might not evaluate equally often.
    """
    epsilon = float(np.finfo(parameters.dtype.as_numpy_dtype).eps)
    zero = tf.zeros_like(first)
    value = tf.reduce_sum(losses, axis=1)
    start = Point(zero, value, agreed(tf.reduce_sum(gradient * direction, axis=1)))
    possible = running & tf.math.is_finite(value) & tf.math.is_finite(start.slope)
    possible &= start.slope < 0
    most = tf.where(only_here, 1, most)

    def evaluated(length: Tensor) -> tuple[Point, Tensor, Tensor]:
        losses, gradient = evaluate(parameters + length[:, None] * direction)
        slope = agreed(tf.reduce_sum(gradient * direction, axis=1))
        value = tf.reduce_sum(losses, axis=1)
        finite = tf.math.is_finite(value) & tf.math.is_finite(slope)
        value = tf.where(finite, value, tf.constant(float("inf"), value.dtype))
        slope = tf.where(finite, slope, tf.zeros_like(slope))
        return Point(length, value, slope), losses, gradient

    def go_on(s: _Search) -> Tensor:
        return tf.reduce_any(s.stage != _DONE) & (s.count < most)

    def body(s: _Search) -> tuple[_Search]:
        active = s.stage != _DONE
        point, losses, gradient = evaluated(tf.where(active, s.trial, s.best.length))
        limit = start.value + sufficient_decrease * point.length * start.slope
        # Where both values are the same but for rounding, the slopes decide.
        rounding = epsilon * tf.abs(s.low.value)
        too_far = (point.value > limit) | (point.value > s.low.value + rounding)
        wolfe = active & ~too_far & (tf.abs(point.slope) <= -curvature * start.slope)
        better = (active & (wolfe | (point.value < s.best.value))) | only_here
        low, high, width, zooming, trial = _narrowed(s, point, too_far)
        resolved = tf.abs(low.slope) * width <= epsilon * tf.abs(start.value)
        resolved |= (trial == low.length) | (trial == high.length) | ~tf.math.is_finite(trial)
        ended = ~active | wolfe | (zooming & resolved)
        stage = tf.where(ended, _DONE, tf.where(zooming, _ZOOMING, _BRACKETING))
        common = agreed(tf.stack([tf.cast(stage, trial.dtype), trial]))
        stage, trial = tf.cast(common[0], tf.int32), common[1]
        best = point.where(better, s.best)
        losses = tf.where(better[:, None], losses, s.losses)
        gradient = tf.where(better[:, None], gradient, s.gradient)
        wolfe |= s.wolfe
        count = s.count + 1
        return (_Search(stage, trial, low, high, width, best, losses, gradient, wolfe, count),)

    stage = tf.where(possible | only_here, _BRACKETING, _DONE)
    trial, none = tf.where(only_here, zero, first), tf.zeros_like(possible)
    zeroth = tf.constant(0)
    begin = _Search(stage, trial, start, start, zero, start, losses, gradient, none, zeroth)
    (end,) = tf.while_loop(go_on, body, (begin,))
    return Found(end.best.length, end.losses, end.gradient, end.wolfe, end.count)


def _narrowed(
    s: _Search, point: Point, too_far: Tensor
) -> tuple[Point, Point, Tensor, Tensor, Tensor]:
    """Return the ends of the interval after a trial, its width, who zooms, and the next trial."""
    zooming = s.stage == _ZOOMING
    # While no end has been found, the interval extends to infinity.
    ahead = tf.where(zooming, tf.sign(s.high.length - s.low.length), tf.ones_like(s.width))
    turned = point.slope * ahead >= 0
    high = point.where(too_far, s.low.where(turned, s.high))
    low = s.low.where(too_far, point)
    zooming |= too_far | turned
    width = tf.abs(high.length - low.length)
    halve = zooming & (s.stage == _ZOOMING) & (width > _SLOW * s.width)
    trial = tf.where(zooming, between(low, high, halve=halve), beyond(s.low, point))
    return low, high, width, zooming, trial


# How far a point may lie beyond the last one, in units of the last step along the line.
_LEAST_BEYOND, _MOST_BEYOND = 1.1, 9.0


class Point(NamedTuple):
    """A point of a line for each of M members."""

    length: Tensor  # α ≥ 0, [M]
    value: Tensor  # φ(α), [M]; infinite where it is not finite
    slope: Tensor  # φ'(α), [M]; zero where it is not finite

    def where(self, chosen: Tensor, other: Point) -> Point:
        """Return this point for the chosen members, [M], the other one for the rest."""
        return Point(*(tf.where(chosen, a, b) for a, b in zip(self, other, strict=True)))


def minimizer(a: Point, b: Point) -> Tensor:
    """Return the local minimizer of the cubic with these values and slopes, [M].

    Nocedal and Wright (2006), eq. 3.59. Not finite where the cubic has none.
    """
    width = b.length - a.length
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length)
    d2 = tf.sign(width) * tf.sqrt(d1 * d1 - a.slope * b.slope)
    return b.length - width * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)


def between(low: Point, high: Point, *, halve: Tensor) -> Tensor:
    """Return a length between two points, away from both, [M]; the middle for those to halve."""
    width = high.length - low.length
    share = (minimizer(low, high) - low.length) / width
    share = tf.clip_by_value(share, _MARGIN, 1 - _MARGIN)
    share = tf.where(halve | ~tf.math.is_finite(share), tf.constant(0.5, share.dtype), share)
    # Without any finite number, the good lengths are far shorter.
    far = tf.math.is_finite(high.value) | (low.length > 0)
    share = tf.where(far, share, tf.constant(_MARGIN, share.dtype))
    return low.length + share * width


def beyond(before: Point, last: Point) -> Tensor:
    """Return a length greater than that of the last point, where the function still falls, [M]."""
    step = last.length - before.length
    least, most = last.length + _LEAST_BEYOND * step, last.length + _MOST_BEYOND * step
    found = minimizer(before, last)
    ahead = tf.math.is_finite(found) & (found > last.length)
    return tf.where(ahead, tf.clip_by_value(found, least, most), most)
