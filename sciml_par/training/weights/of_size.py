"""The sizes of residuals in their units, by which they are divided where these lie far apart."""

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
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem

Tensor = Any
Array = npt.NDArray[np.float64]
Wave = tuple[Array, float]
"""Amplitudes [m] and a shift."""
Evaluated = tuple[Callable[..., Any], list[Array], bool]
"""A term's function, arrays at some points, and whether each residual is that of one point."""

_POINTS, _MOST_POINTS, _DTYPE = 64, 256, "float64"
_FREQUENCY, _SHIFTS = 1.5, (0.0, 2.1)
"""Of 0.7 + 0.3 sin(1.5 Σ z_i + shift) on [−1, 1]^d: positive, so that rate laws, roots and
logarithms are finite, and as smooth as a solution without details."""
_MOST_ABOVE, _MOST_BELOW = 1e3, 1e2
"""How far equations may lie above other terms, and below conditions, in natural units."""
_SILENT = 1e-10
"""Of a residual, up to which it does not depend on a component of u."""
_ROUNDING = 1e-12
"""Of u, below which a residual is that of a condition that all these functions satisfy."""


@lru_cache(maxsize=8)  # a solution makes many trainings of one problem
def sizes_of_residuals(problem: Problem) -> dict[str, float]:
    """Return powers of 2 by which residuals are divided, by name; {} in natural units (local).

    The size of a residual is its root mean square for smooth functions u of the size that the
    values of conditions, or else the sources of the equations, ask for, with unknowns at their
    start values. It is about that of the largest term, since those of such functions do not cancel.

    Residuals stay as they are where derivatives alone may explain how their sizes differ; where
    weights are given, which hold as they are; and where a residual is not finite for these
    functions.
    """
    first = len(problem.residuals)
    weighed = [each.weight != 1.0 for each in problem.residuals]
    weighed += [each.weight is not None for each in problem.conditions]
    if not first or problem.ansatz is not None or any(weighed) or problem.term_weights:
        return {}
    try:
        with np.errstate(all="ignore"):
            sizes = _sizes(problem)
    except Exception:  # a user's residual may not like such functions
        return {}
    equations, others = sizes[:first], [size for size in sizes[first:] if size]
    if not all(map(math.isfinite, sizes)) or not all(equations):
        return {}
    natural = max(equations) <= _MOST_ABOVE * min(*equations, *others, math.inf)
    if natural and max(others, default=0.0) <= _MOST_BELOW * min(equations):
        return {}
    named = zip(problem.terms, sizes, strict=False)
    return {term.name: 2.0 ** round(math.log2(size)) for term, size in named if size}


def _sizes(problem: Problem) -> list[float]:
    """Return the sizes of the residuals; 0 of those that are not divided."""
    m, first, terms = problem.network_outputs, len(problem.residuals), []
    for i, term in enumerate(problem.terms):
        arrays = term.points(_POINTS)
        step = max(1, len(arrays[0]) // _MOST_POINTS)
        terms.append((term.function, [a[::step] for a in arrays], i < first))
    equations, conditions = terms[:first], terms[first:]
    by_values = _completed(problem, conditions, np.zeros(m))
    amplitudes = _by_sources(problem, equations, by_values)
    found, silent = _at_waves(problem, equations, amplitudes)
    silent &= by_values > 0.0
    if silent.any():  # values such as sin π = 1e-16, beside which sources count alone
        by_sources = _by_sources(problem, equations, np.where(silent, 0.0, by_values))
        amplitudes = np.maximum(by_values, by_sources)
        found, _ = _at_waves(problem, equations, amplitudes)
    found += [_residuals(problem, *each, _shifted(amplitudes)) for each in conditions]
    divided = [True] * first + [not each.statistical for each in problem.conditions]
    sizes = [max(float(_root_mean_square(r).max()) for r in of) for of in found]
    tiny = _ROUNDING * float(amplitudes.max())
    return [s if d and not s < tiny else 0.0 for d, s in zip(divided, sizes, strict=True)]


def _by_sources(problem: Problem, equations: Sequence[Evaluated], amplitudes: Array) -> Array:
    """Complete amplitudes by sources, then by what the other components cause, then by one."""
    for _ in range(2):
        amplitudes = _completed(problem, equations, amplitudes)
    return np.where(amplitudes == 0.0, 1.0, amplitudes)


def _completed(problem: Problem, some: Sequence[Evaluated], before: Array) -> Array:
    """Return amplitudes whose zeros are the most by which residuals change as much as they are."""
    amplitudes = before.copy()
    for j in np.flatnonzero(before == 0.0):
        with_one, factors = np.where(np.arange(len(before)) == j, 1.0, before), [0.0]
        for each in some:
            a, b = _residuals(problem, *each, [(before, 0.0), (with_one, 0.0)])
            change, size = _root_mean_square(b - a), _root_mean_square(b)
            seen = (change > 1e-12 * size) & (change > 0)
            factors += list(_root_mean_square(a)[seen] / change[seen])
        amplitudes[j] = max(filter(math.isfinite, factors))
    return amplitudes


def _shifted(amplitudes: Array) -> list[Wave]:
    return [(amplitudes, shift) for shift in _SHIFTS]


def _at_waves(
    problem: Problem, equations: Sequence[Evaluated], amplitudes: Array
) -> tuple[list[list[Array]], npt.NDArray[np.bool_]]:
    """Return residuals for each shift, and which components no equation depends on: [m]."""
    m, count = len(amplitudes), len(_SHIFTS)
    without = [(np.where(np.arange(m) == j, 0.0, amplitudes), _SHIFTS[0]) for j in range(m)]
    found, silent = [], np.ones(m, np.bool_)
    for each in equations:
        r = _residuals(problem, *each, [*_shifted(amplitudes), *without])
        size = _SILENT * _root_mean_square(r[0])
        silent &= [bool(np.all(_root_mean_square(q - r[0]) <= size)) for q in r[count:]]
        found.append(r[:count])
    return found, silent


def _root_mean_square(r: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(r**2, axis=0)))


def _residuals(
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
    slopes = _FREQUENCY * 2 / (upper - lower)
    values = [tf.constant(np.stack(each), _DTYPE) for each in zip(*waves, strict=True)]

    def wave(x: Tensor, order: int, factors: Any) -> Tensor:
        """Return the derivatives of an order in some directions, [n, m, len(factors)]."""
        copies = tf.reshape(x, [len(waves), -1, x.shape[1]])
        if len(waves) > 1 and bool(tf.reduce_any(copies != copies[:1])):
            raise ValueError("the points are no copies")
        rows = tf.shape(copies)[1]
        amplitudes, shifts = (tf.repeat(each, rows, axis=0) for each in values)
        phase = tf.linalg.matvec(x, slopes) - slopes @ (lower + upper) / 2 + shifts
        sine = 0.3 * tf.sin(phase + order * math.pi / 2) + (0.7 if order == 0 else 0.0)
        return sine[:, None, None] * (amplitudes[:, :, None] * np.reshape(factors, (1, 1, -1)))

    def jet(x: Tensor, second: Any, higher: Any = ()) -> tuple[Tensor, ...]:
        found = [wave(x, 0, [1.0])[:, :, 0], wave(x, 1, slopes)]
        found.append(wave(x, 2, np.einsum("i,kij,j->k", slopes, second, slopes)))
        if higher:  # each operator is of one order; its factor is Σ c Π slopes
            factors = [sum(c * math.prod(slopes[i] for i in axes) for axes, c in h) for h in higher]
            pairs = zip(higher, factors, strict=True)
            found.append(tf.concat([wave(x, order_of(h), [c]) for h, c in pairs], axis=2))
        return tuple(found)

    return problem.field(Field(lambda x: wave(x, 0, [1.0])[:, :, 0], jet=jet))
