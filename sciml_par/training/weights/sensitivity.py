"""How far data can move a solution against its equation, from a few smooth functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term

Tensor = Any
Array = npt.NDArray[np.float64]

_POINTS, _DTYPE = 200, "float64"
_FUNCTIONS = {1: 40, 2: 80, 3: 100}
_FUNCTIONS_OTHERWISE = 120
_LEAST, _MOST = 40, 160
_FREQUENCIES = (1.0, 3.0)
_SMALL = 1e-3
_RIDGE = 1e-3
_CUTOFF = 1e-3
"""Of directions of the coefficients, beyond which they are too rough to be of interest."""
_GAP = 30.0
"""The factor between ratios from which those below belong to directions that are free."""
_MOST_FREE = 0.5
"""The share of directions that may be free."""


def stiffness(problem: Problem, physics: Sequence[str], data: Sequence[str]) -> Array:
    """Return |change of physics| over |change of data| for smooth changes of u, ascending.

    u is a sum of smooth functions that fits the data, and the unknowns have their start values.
    The ratios are the generalized singular values of the derivatives of √(w/N) r of equations and
    conditions, and of the errors of the data in units of their deviations, by the coefficients.
    Directions that the equation leaves open, such as an initial condition that is not given, are
    left out: their ratios lie far below the others.

    Raises
    ------
    Exception
        Whatever the user's residuals raise for such functions.
    """
    terms = {term.name: term for term in problem.terms}
    residuals = _traced(problem, [terms[n] for n in physics], [terms[n] for n in data])
    count = problem.network_outputs * _number(problem)
    zero = np.zeros(count)
    of_data = _derivatives(residuals, zero, 1.0)[1]
    fitted = _ridge(of_data, -residuals(zero)[1])
    of_physics, of_data = _derivatives(residuals, fitted, _SMALL)
    if not (np.isfinite(of_physics).all() and np.isfinite(of_data).all()):
        raise FloatingPointError("a residual is not finite for smooth functions")
    return _determined(_ratios(of_physics, of_data))


def _number(problem: Problem) -> int:
    number = _FUNCTIONS.get(problem.domain.dimension, _FUNCTIONS_OTHERWISE)
    return max(_LEAST, min(number, _MOST // problem.network_outputs))


def _traced(problem: Problem, physics: Sequence[Term], data: Sequence[Term]) -> Any:
    """Return coefficients -> residuals of physics, and of data, as vectors."""
    m, k = problem.network_outputs, _number(problem)
    lower, upper = map(np.asarray, problem.box_of_inputs)
    rng = np.random.default_rng(0)
    frequencies = rng.uniform(*_FREQUENCIES, size=k)
    kernel = frequencies * rng.normal(size=(len(lower), k))
    bias = frequencies * rng.uniform(-1, 1, size=k)
    arrays = [[tf.constant(a, _DTYPE) for a in t.points(_POINTS)] for t in (*physics, *data)]

    def field(coefficients: Tensor) -> Field:
        def value(x: Tensor) -> Tensor:
            t = 2 * (x - tf.constant(lower, x.dtype)) / tf.constant(upper - lower, x.dtype) - 1
            features = tf.tanh(t @ tf.constant(kernel, x.dtype) + tf.constant(bias, x.dtype))
            return features @ tf.reshape(coefficients, [k, m])

        return problem.field(Field(value))

    @tf.function(autograph=False)
    def of(coefficients: Tensor) -> tuple[Tensor, Tensor]:
        u = field(coefficients)
        found = [t.residual(u, *a) for t, a in zip((*physics, *data), arrays, strict=True)]
        scaled = [
            tf.sqrt(tf.cast(t.weight / a[0].shape[0], _DTYPE)) * r
            for t, a, r in zip(physics, arrays, found, strict=False)
        ]
        rows = [tf.reshape(r, [-1]) for r in (*scaled, *found[len(physics) :])]
        return tf.concat(rows[: len(physics)], 0), tf.concat(rows[len(physics) :], 0)

    def residuals(coefficients: Array) -> tuple[Array, Array]:
        first, second = of(tf.constant(coefficients, _DTYPE))
        return first.numpy().astype(np.float64), second.numpy().astype(np.float64)

    return residuals


def _derivatives(residuals: Any, at: Array, step: float) -> tuple[Array, Array]:
    size, here = step * (1.0 + np.linalg.norm(at)), residuals(at)
    columns = [
        [(a - b) / size for a, b in zip(residuals(at + e), here, strict=True)]
        for e in size * np.eye(len(at))
    ]
    of_physics, of_data = (np.column_stack(each) for each in zip(*columns, strict=True))
    return of_physics, of_data


def _ridge(matrix: Array, wanted: Array) -> Array:
    """Return c of least |A c − b|² + δ² |c|², which is smooth where there are few data."""
    delta = _RIDGE * np.linalg.norm(matrix)
    rows = np.vstack([matrix, delta * np.eye(matrix.shape[1])])
    right = np.concatenate([wanted, np.zeros(matrix.shape[1])])
    return np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])


def _ratios(physics: Array, data: Array) -> Array:
    """Return the generalized singular values of a pair, ascending, of directions data see.

    There are none if one of the two does not change at all.
    """
    sizes = [float(np.linalg.norm(each)) for each in (physics, data)]
    if not all(sizes):
        return np.empty(0)
    balance = sizes[0] / sizes[1]
    both = np.vstack([physics, balance * data])
    u, s, _ = np.linalg.svd(both, full_matrices=False)
    q = u[:, s > _CUTOFF * s[0]]
    _, cosines, rotation = np.linalg.svd(q[len(physics) :], full_matrices=False)
    sines = np.linalg.norm(q[: len(physics)] @ rotation.T, axis=0)
    seen = cosines > 1e-6
    return np.sort(balance * sines[seen] / cosines[seen])


def _determined(ratios: Array) -> Array:
    """Return those above the widest gap, where there is one."""
    most = int(_MOST_FREE * len(ratios))
    steps = ratios[1 : most + 1] / np.maximum(ratios[:most], np.finfo(float).tiny)
    if len(steps) and steps.max() > _GAP:
        return ratios[int(np.argmax(steps)) + 1 :]
    return ratios
