"""The sizes of residuals in their units, by which they are divided where these lie far apart."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, order_of
from sciml_par._tensorflow import tf
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem

Tensor = Any
Array = npt.NDArray[np.float64]

_POINTS, _MOST_POINTS, _DTYPE = 64, 256, "float64"
_FREQUENCY, _SHIFTS = 1.5, (0.0, 2.1)
"""Of 0.7 + 0.3 sin(1.5 Σ z_i + shift) on [−1, 1]^d: positive, so that rate laws, roots and
logarithms are finite, and as smooth as a solution without details."""
_MOST_ABOVE, _MOST_BELOW = 1e3, 1e2
"""How far equations may lie above other terms, and below conditions, in natural units."""
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
    if not problem.residuals or problem.ansatz is not None or _has_weights(problem):
        return {}
    try:
        sizes = _sizes(problem)
    except Exception:  # a user's residual may not like such functions
        return {}
    first = len(problem.residuals)
    equations = sizes[:first]
    others = [size for size in sizes[first:] if size]
    if not all(map(math.isfinite, sizes)) or not all(equations):
        return {}
    natural = max(equations) <= _MOST_ABOVE * min(*equations, *others, math.inf)
    if natural and max(others, default=0.0) <= _MOST_BELOW * min(equations):
        return {}
    named = zip(problem.terms, sizes, strict=False)
    return {term.name: 2.0 ** round(math.log2(size)) for term, size in named if size}


def _has_weights(problem: Problem) -> bool:
    """Return whether the user has weighed terms, or the residuals have columns of weights."""
    weighed = [each.weight != 1.0 for each in problem.residuals]
    weighed += [each.weight is not None for each in problem.conditions]
    return any(weighed) or bool(problem.term_weights)


def _sizes(problem: Problem) -> list[float]:
    """Return the sizes of the residuals; 0 of those that are not divided."""
    with np.errstate(all="ignore"):
        columns = _columns_of(problem)
        m, first = problem.network_outputs, len(problem.residuals)
        zero = columns(np.zeros(m), 0.0)
        amplitudes = np.zeros(m)
        # By values of conditions, then by sources, then by what the other components cause.
        for terms in (slice(first, None), slice(0, first), slice(0, first)):
            open_ = np.flatnonzero(amplitudes == 0.0)
            here = columns(amplitudes, 0.0) if amplitudes.any() else zero
            for j in open_:
                with_one = columns(np.where(np.arange(m) == j, 1.0, amplitudes), 0.0)
                amplitudes[j] = _amplitude(here[terms], with_one[terms])
        amplitudes[amplitudes == 0.0] = 1.0
        found = [columns(amplitudes, shift) for shift in _SHIFTS]
        undivided = [False] * first + [each.statistical for each in problem.conditions]
        sizes = [
            max(float(_root_mean_square(r).max()) for r in of) for of in zip(*found, strict=True)
        ]
        tiny = _ROUNDING * float(amplitudes.max())
        return [0.0 if skip or s < tiny else s for skip, s in zip(undivided, sizes, strict=True)]


def _amplitude(without: list[Array], with_one: list[Array]) -> float:
    """Return the largest factor of a component by which residuals change as much as they are."""
    factors = [0.0]
    for a, b in zip(without, with_one, strict=True):
        change = _root_mean_square(b - a)
        seen = (change > 1e-12 * _root_mean_square(b)) & (change > 0)
        factors += list(_root_mean_square(a)[seen] / change[seen])
    return max(filter(math.isfinite, factors))


def _root_mean_square(r: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(r**2, axis=0)))


def _some(arrays: Any) -> list[Tensor]:
    """Return rows of arrays as tensors: all of few."""
    step = max(1, len(arrays[0]) // _MOST_POINTS)
    return [tf.constant(a[::step], _DTYPE) for a in arrays]


def _columns_of(problem: Problem) -> Any:
    """Return (amplitudes [m], shift) -> the residuals of each term, [n, c] each, undivided."""
    lower, upper = map(np.asarray, problem.box_of_inputs)
    arrays = [_some(term.points(_POINTS)) for term in problem.terms]
    slopes = _FREQUENCY * 2 / (upper - lower)

    def columns(amplitudes: Array, shift: float) -> list[Array]:
        def wave(x: Tensor, order: int, factors: Any) -> Tensor:
            """Return the derivatives of an order in some directions, [n, m, len(factors)]."""
            phase = tf.linalg.matvec(x, slopes) - slopes @ (lower + upper) / 2 + shift
            sine = 0.3 * tf.sin(phase + order * math.pi / 2) + (0.7 if order == 0 else 0.0)
            return sine[:, None, None] * (amplitudes[:, None] * np.reshape(factors, (1, -1)))

        def jet(x: Tensor, second: Any, higher: Any = ()) -> tuple[Tensor, ...]:
            above = [_along(operator, slopes) for operator in higher]
            found = [wave(x, 0, [1.0])[:, :, 0], wave(x, 1, slopes)]
            found.append(wave(x, 2, np.einsum("i,kij,j->k", slopes, second, slopes)))
            if above:
                found.append(tf.concat([wave(x, q, [c]) for q, c in above], axis=2))
            return tuple(found)

        u = problem.field(Field(lambda x: wave(x, 0, [1.0])[:, :, 0], jet=jet))
        terms = zip(problem.terms, arrays, strict=True)
        return [term.function(u, *given).numpy() for term, given in terms]

    return columns


def _along(operator: Operator, slopes: Array) -> tuple[int, float]:
    """Return the order of an operator of one order, and its factor Σ c Π slopes."""
    return order_of(operator), sum(c * math.prod(slopes[i] for i in axes) for axes, c in operator)
