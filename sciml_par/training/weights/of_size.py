"""The sizes of residuals and of components of u in their units, by which they are scaled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import order_of
from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.transformed import Ranges
from sciml_par.problems.problem import Problem

Tensor = Any
Array = npt.NDArray[np.float64]
Wave = tuple[Any, ...]
"""Amplitudes [m], a shift, and constants [m] that are added."""
Evaluated = tuple[Callable[..., Any], list[Array], bool]
"""A term's function, arrays at some points, and whether each residual is that of one point."""
Beside = list[Array] | None
"""The arrays of a condition at points that differ by rounding, if it can be moved."""

_POINTS, _MOST_POINTS, _DTYPE = 64, 256, "float64"
_FREQUENCY, _SHIFTS = 3.0, (0.0, 2.1)
"""Of 0.65 + 0.35 sin(3 Σ f_i z_i + shift), 1 ≤ f_i < 2, on [0, 1]^d: positive, so that rate laws,
roots and logarithms are finite, and as smooth as a solution without details."""
_MOST_ABOVE, _MOST_BELOW = 1e3, 1e2
"""How far equations may lie above other terms, and below conditions, in natural units."""
_NARROW = 1e-2
"""Half of a range is no smaller a part of its middle, whose rounding in single precision it has."""
_UNUSUAL, _FAR = 30.0, 1e3
"""Up to which values of u that conditions ask for, and that sources cause, are of a usual size.
Sources with details cause a hundredth of what they seem to."""
_LINEAR, _SAFE = 1e-9, 100.0
"""How exactly residuals that are linear in u are so, and within how many roundings."""
_ROUNDING = 1e-12
"""Of u, below which a residual is that of a condition that all these functions satisfy."""
_MOVED, _NOISE = 1e-15, 0.1
"""Of the box, by how much points are moved, and of a residual, by how much it then changes if it is
nothing but rounding, as of sin πx at x = 1."""


@lru_cache(maxsize=8)  # a solution makes many trainings of one problem
def sizes_of_residuals(problem: Problem) -> dict[str, float]:
    """Return powers of 2 by which residuals are divided, by name; {} in natural units (local).

    The size of a residual is its root mean square for smooth functions u with values in the ranges
    of `_all_ranges`, and with unknowns at their start values. It is about that of the largest term,
    since those of such functions do not cancel.

    Residuals stay as they are where u has values of a usual size and derivatives alone may explain
    how the sizes of residuals differ; where weights are given, which hold as they are; and where a
    residual is not finite for these functions.
    """
    first = len(problem.residuals)
    weighed = [each.weight != 1.0 for each in problem.residuals]
    weighed += [each.weight is not None for each in problem.conditions]
    if not first or problem.ansatz is not None or any(weighed) or problem.term_weights:
        return {}
    try:
        with np.errstate(all="ignore"):
            sizes = _sizes(problem.with_output_ranges(_all_ranges(problem)))
    except Exception:  # a user's residual may not like such functions
        return {}
    equations, others = sizes[:first], [size for size in sizes[first:] if size]
    if not all(map(math.isfinite, sizes)) or not all(equations):
        return {}
    natural = max(equations) <= _MOST_ABOVE * min(*equations, *others, math.inf)
    natural &= max(others, default=0.0) <= _MOST_BELOW * min(equations)
    if natural and ranges_of_components(problem) is None:
        return {}
    named = zip(problem.terms, sizes, strict=False)
    return {term.name: 2.0 ** round(math.log2(size)) for term, size in named if size}


def ranges_of_components(problem: Problem) -> Ranges | None:
    """Return the ranges of components that a network gives as −1 to 1; None for u = N (local).

    Components with values of a usual size stay as they are.
    """
    if not problem.has_open_ranges:
        return problem.output_ranges
    try:
        with np.errstate(all="ignore"):
            values, by_sources = _values_and_changes(problem)
    except Exception:  # as above
        return None
    sizes = np.abs(values).max(axis=1)
    usual = (sizes <= _UNUSUAL) & (by_sources <= _FAR)
    usual &= (sizes >= 1 / _UNUSUAL) | (by_sources >= 1 / _FAR) | (sizes + by_sources == 0.0)
    found = np.where(usual[:, None], [-1.0, 1.0], _joined(values, by_sources))
    return None if usual.all() else tuple(map(tuple, found.tolist()))


def _all_ranges(problem: Problem) -> Ranges:
    """Return the range of values of each component, of a usual size or not."""
    if problem.output_ranges is not None:
        return problem.output_ranges
    return tuple(map(tuple, _joined(*_values_and_changes(problem)).tolist()))


def _joined(values: Array, by_sources: Array) -> Array:
    """Return ranges [m, 2] that hold given values, [m, 2], and are as wide as sources cause."""
    middles, halves = values.mean(axis=1), np.ptp(values, axis=1) / 2
    halves = np.maximum(halves, by_sources)
    usual = np.where(middles == 0.0, 1.0, np.abs(middles))
    halves = np.where(halves == 0.0, usual, np.maximum(halves, _NARROW * np.abs(middles)))
    return np.stack([middles - halves, middles + halves], axis=1)


@lru_cache(maxsize=8)
def _values_and_changes(problem: Problem) -> tuple[Array, Array]:
    """Return the least and the largest value that conditions ask for, [m, 2], and changes, [m].

    The values are those of conditions that are linear in one component alone; the changes of a
    component, what the sources of equations that are linear in it, or else all terms, cause.
    """
    m = problem.outputs
    equations, conditions = evaluated_terms(problem)
    beside = _beside(problem)
    pairs = list(zip(conditions, beside, strict=True))
    every = [*((each, None) for each in equations), *pairs]
    values = np.array([_values(problem, pairs, j) for j in range(m)])
    middles, halves, changes = values.mean(axis=1), np.ptp(values, axis=1) / 2, np.zeros(m)
    for again in (False, True):
        sizes = np.maximum(halves, changes)
        for j in np.flatnonzero(sizes == 0.0) if again else range(m):
            others = np.where(np.arange(m) == j, 0.0, sizes)
            waves = [(others + size * np.eye(m)[j], 0.0, middles) for size in (0.0, 1.0, 2.0)]
            for each, moved in every if again else every[: len(equations)]:
                r, *changed = _residuals(problem, each, moved, waves)
                size, change = map(_root_mean_square, (r, _linear_change(r, *changed)))
                factors = size[change > 0.0] / change[change > 0.0]
                found = sorted(factors[np.isfinite(factors)])
                # Where components meet, their values and their fluxes each allow for no more.
                changes[j] = max([changes[j], *(found if each[2] else found[:1])])
    return values, changes


def _values(
    problem: Problem, conditions: Sequence[tuple[Evaluated, Beside]], j: int
) -> tuple[float, float]:
    """Return the least and the largest value of component j that conditions ask for; 0 if none."""
    zero, one = np.zeros(problem.outputs), np.eye(problem.outputs)[j]
    found = list[Array]()
    for each, moved in conditions:
        waves = [(zero, 0.0, constants) for constants in (zero, one, 2 * one, 1 - one)]
        r, with_one, with_two, by_others = _residuals(problem, each, moved, waves)
        change = _linear_change(r, with_one, with_two) * (by_others == r).all(axis=0)
        asks = np.abs(change) > _LINEAR * np.abs(change).max(initial=0.0)
        found.append(-r[asks] / change[asks])
    values = [float(each) for each in np.concatenate([*found, []]) if math.isfinite(each)]
    return min(values, default=0.0), max(values, default=0.0)


def _linear_change(r: Array, with_one: Array, with_two: Array) -> Array:
    """Return by how much residuals [n, c] change with u, 0 in columns that are not linear in it."""
    change, twice = with_one - r, with_two - r
    rounding = np.finfo(np.float64).eps * np.abs(r).max(axis=0, initial=0.0)
    size = np.abs(change).max(axis=0, initial=0.0)
    off = np.abs(twice - 2 * change).max(axis=0, initial=0.0)
    linear = (off <= _LINEAR * size + _SAFE * rounding) & (size > _SAFE * rounding)
    return np.where(linear, change, 0.0)


def _beside(problem: Problem) -> list[Beside]:
    """Return the arrays of conditions at points beside those of `evaluated_terms`."""
    lower, upper = map(np.asarray, problem.box_of_inputs)
    found = list[Beside]()
    for condition, term in problem.terms_of_conditions:
        moved: Beside = None
        own = type(condition).points is not Condition.points  # as of observations
        if not own and condition.given(problem.domain) is None:
            x, *normals = term.points(_POINTS)[:2]
            x = x + _MOVED * np.maximum(upper - lower, np.abs(x))
            with suppress(Exception):  # a user's function may not like these
                arrays = condition.completed((x, *(normals or [x])), problem.domain)
                moved = [a[:: max(1, len(x) // _MOST_POINTS)] for a in arrays]
        found.append(moved)
    return found


def _residuals(
    problem: Problem, term: Evaluated, beside: Beside, waves: Sequence[Wave]
) -> list[Array]:
    """Return the residuals for each wave, with 0 in the first where it is nothing but rounding."""
    first, *others = residuals_at(problem, *term, waves)
    if beside is not None:
        (moved,) = residuals_at(problem, term[0], beside, term[2], waves[:1])
        first = np.where(np.abs(moved - first) > _NOISE * np.abs(first), 0.0, first)
    return [first, *others]


def evaluated_terms(problem: Problem) -> tuple[list[Evaluated], list[Evaluated]]:
    """Return the equations and the conditions at some of their points."""
    first, terms = len(problem.residuals), list[Evaluated]()
    for i, term in enumerate(problem.terms):
        arrays = term.points(_POINTS)
        step = max(1, len(arrays[0]) // _MOST_POINTS)
        terms.append((term.function, [a[::step] for a in arrays], i < first))
    return terms[:first], terms[first:]


def _sizes(problem: Problem) -> list[float]:
    """Return the sizes of the residuals; 0 of those that are not divided."""
    one, zero = np.ones(problem.outputs), np.zeros(problem.outputs)
    waves = [(one, shift, zero) for shift in _SHIFTS]
    both = evaluated_terms(problem)
    found = [residuals_at(problem, *each, waves) for terms in both for each in terms]
    sizes = [max(float(_root_mean_square(r).max()) for r in of) for of in found]
    tiny = _ROUNDING * max(max(-low, high) for low, high in problem.output_ranges or ())
    for i, condition in enumerate(problem.conditions, len(problem.residuals)):
        sizes[i] = 0.0 if condition.statistical or sizes[i] < tiny else sizes[i]
    return sizes


def _root_mean_square(r: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(r**2, axis=0)))


def residuals_at(
    problem: Problem,
    function: Callable[..., Tensor],
    arrays: Sequence[Array],
    pointwise: bool,
    waves: Sequence[Wave],
) -> list[Array]:
    """Return the residuals [n, c] of a term for each wave, undivided.

    One call computes those of single points for all waves, at copies of the points, one below the
    other. Not where the residual asks for u at points that are no copies, as operators that join
    some of their own.
    """

    def at(some: Sequence[Wave]) -> list[Array]:
        copies = [tf.constant(np.concatenate([a] * len(some)), _DTYPE) for a in arrays]
        return np.split(function(_field(problem, some), *copies).numpy(), len(some))

    if pointwise:
        with suppress(Exception):
            return at(waves)
    return [r for each in waves for r in at([each])]


def _field(problem: Problem, waves: Sequence[Wave]) -> Field:
    """Return u at copies of points, a wave on each."""
    lower, upper = map(np.asarray, problem.box_of_inputs)
    # No two axes alike: sin(x + t) has no residual in the wave equation.
    slopes = _FREQUENCY * (1 + 0.618 * np.arange(len(lower)) % 1) / (upper - lower)
    values = [tf.constant(np.stack(each), _DTYPE) for each in zip(*waves, strict=True)]

    def wave(x: Tensor, order: int, factors: Any) -> Tensor:
        """Return the derivatives of an order in some directions, [n, m, len(factors)]."""
        copies = tf.reshape(x, [len(waves), -1, x.shape[1]])
        if len(waves) > 1 and bool(tf.reduce_any(copies != copies[:1])):
            raise ValueError("the points are no copies")
        rows = tf.shape(copies)[1]
        amplitudes, shifts, constants = (tf.repeat(each, rows, axis=0) for each in values)
        phase = tf.linalg.matvec(x, slopes) - slopes @ (lower + upper) / 2 + shifts
        sine = 0.35 * tf.sin(phase + order * math.pi / 2) + (0.65 if order == 0 else 0.0)
        found = sine[:, None, None] * (amplitudes[:, :, None] * np.reshape(factors, (1, 1, -1)))
        return found + constants[:, :, None] if order == 0 else found

    def jet(x: Tensor, second: Any, higher: Any = ()) -> tuple[Tensor, ...]:
        found = [wave(x, 0, [1.0])[:, :, 0], wave(x, 1, slopes)]
        found.append(wave(x, 2, np.einsum("i,kij,j->k", slopes, second, slopes)))
        if higher:  # each operator is of one order; its factor is Σ c Π slopes
            factors = [sum(c * math.prod(slopes[i] for i in axes) for axes, c in h) for h in higher]
            pairs = zip(higher, factors, strict=True)
            found.append(tf.concat([wave(x, order_of(h), [c]) for h, c in pairs], axis=2))
        return tuple(found)

    return problem.field(Field(lambda x: wave(x, 0, [1.0])[:, :, 0], jet=jet))
