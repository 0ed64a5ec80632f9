"""Whether equation and conditions determine the solution, by the features that solved it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par.problems.problem import Problem

Array = npt.NDArray[Any]

_SMALL = 1e-5
"""The residual of a free function, relative to that of a usual one of the same size."""
_NOTHING = 1e-10
"""The residual of a component on which nothing depends, relative to the largest one."""
_FREE, _ALIKE = 0.3, 1e-3
"""The share of a smooth function from which it is called free, and the one of the largest free
part, up to which two are the same."""

UNDETERMINED = (
    "the equation and its conditions do not determine the solution, or not to the digits of the "
    "computation: functions can be added to u that leave all residuals as they are, as a constant "
    "where only derivatives are given; add boundary or initial conditions."
)


class Free(NamedTuple):
    """Components to which functions can be added without a residual.

    changes, usual : of the parameters, which add such and other smooth functions, [J, p], [K, p].
    residual : the least one of a free function, relative to that of a usual one of its size.
    reason : a sentence for the case that nothing is determined.
    """

    components: tuple[int, ...]
    changes: Array
    usual: Array
    residual: float = 0.0
    reason: str = UNDETERMINED


def free_of(
    factor: Array,
    values: Array,
    smooth: Array,
    outputs: int,
    changes: Callable[[Array], Array],
    times: int = 1,
) -> Free:
    """Return the components of which a smooth function has a large free share (local).

    factor : R of J, [q, q]; values : φ_j at points, [n k, q]; smooth : g there, [n k, K k];
    changes : gives the size of the change of each component of u, c: [q, K] -> [K, m].
    times : 2 finds as well what is free in a small part of smooth functions, if φ_j are far from
        dependent on each other.
    """
    from scipy.linalg import lstsq

    fitted = lstsq(values, smooth, cond=1e-10, lapack_driver="gelsy")[0]
    residuals = np.linalg.norm(factor @ fitted, axis=0) / np.linalg.norm(smooth, axis=0)
    # Of each output alone, which may have other units than the rest.
    usual = np.median(residuals.reshape(-1, outputs), axis=0)
    if not usual.max() > 0:
        return Free(tuple(range(changes(fitted).shape[1])), fitted.T, fitted.T)
    usual[usual < _NOTHING * usual.max()] = usual.max()
    unit = np.tile(usual, len(values) // outputs)[:, None]
    rows = np.vstack([factor, _SMALL * unit * values])
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0.0] = 1.0
    found = fitted
    for _ in range(times):
        begun = found / np.maximum(np.linalg.norm(values @ found, axis=0), np.finfo(float).tiny)
        wanted = np.vstack([0 * (factor @ begun), _SMALL * unit * (values @ begun)])
        found = lstsq(rows / scale, wanted, cond=1e-15, lapack_driver="gelsy")[0] / scale[:, None]
    free, whole = changes(found), changes(begun)
    # A function of one component may change another one, in other units, by little of it.
    about = whole > _SMALL * whole.max(axis=0)
    shares = np.divide(free, whole, out=np.zeros_like(free), where=about)
    components = np.flatnonzero(shares.max(axis=0) > _FREE)
    added = found[:, (shares > _FREE).any(axis=1)]
    _, sizes, along = np.linalg.svd(unit * (values @ added), full_matrices=False)
    kept = sizes > _ALIKE * max(sizes, default=0.0)
    of_units = np.linalg.svd(factor @ added @ (along[kept].T / sizes[kept]), compute_uv=False)
    residual = float(min(of_units, default=np.inf))
    return Free(tuple(map(int, components)), added.T, fitted.T, residual)


def smooth_functions(problem: Problem, x: Array) -> Array:
    """Return smooth functions for each output of the network at x, [n m, K]."""
    domain, m = problem.domain, problem.network_outputs
    lower, upper = np.asarray(domain.lower), np.asarray(domain.upper)
    t = (x - lower) / (upper - lower)
    scalar = np.column_stack([np.ones(len(x)), t - 0.5, np.cos(np.pi * t), np.cos(2 * np.pi * t)])
    return np.einsum("nk,ij->nikj", scalar, np.eye(m)).reshape(len(x) * m, -1)
