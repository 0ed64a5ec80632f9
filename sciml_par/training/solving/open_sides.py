"""Whether a domain is entered through a side that has fewer conditions than solutions come in.

Polynomials continue what is known into the part of the domain that these reach, and so may not
show that it is free. On a side, frozen coefficients leave of the linearized equations

    P(κ) v = 0    for v e^{st + κn + iω·y}, n along the inward normal, s > 0 large.

Each root κ of det P with Re κ < 0 is a solution that comes in and takes one condition (Kreiss 1970,
Comm. Pure Appl. Math. 23, 277). It is a wave of the speed s/|κ| if κ is proportional to s, and
spreads, as by diffusion, if κ is proportional to a root of s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import HIGHEST, Operator
from sciml_par.assembly.asked import Asked, Rows
from sciml_par.assembly.equations import Equations, Linearized
from sciml_par.assembly.solution import Solution
from sciml_par.problems.problem import Problem

Array = npt.NDArray[Any]
OfPoint = list[tuple[tuple[Operator, ...], Array]]
"""Operators that rows ask for beside u and ∇u, and ∂r/∂z at one point, [k, Q, m]."""

_POINTS = 5
"""Of a side, at each of which conditions are counted."""
_S, _OMEGA = 1e4, 1.7
"""s and ω in units of the sides of the box; with such an s, terms of lower order hardly count."""
_SLOWEST, _ROUNDING, _SAME = 1e-3, 1e-9, 0.05
"""Part of the domain that waves cross in its time, of those that count; and how far κ/s of a wave
changes where s is doubled."""


def open_sides(
    problem: Problem, solution: Solution, terms: Equations, asked: dict[str, Asked]
) -> list[str]:
    """Return the sides of a box, as "x = 0", at which waves enter without a condition (local).

    problem : in space and time, with coefficients at a solution.
    terms : of the problem, at any points, of which those of conditions are read.
    asked : what residuals ask for.
    """
    domain, count, d = problem.domain, len(problem.residuals), problem.domain.dimension
    conditions, p = terms.behind(count), solution.parameters
    box = math.isclose(domain.volume, float(np.prod(domain.extent)), rel_tol=_ROUNDING)
    local = all(len(rows.requests) == 1 and rows.asked.at_own_points for rows in terms.rows)
    outside = all(condition.on_boundary for condition in problem.conditions)
    if not (box and local and outside and problem.ansatz is None):
        return []
    given = conditions.linearized(solution.jets(conditions), p)
    found, rng = list[str](), np.random.default_rng(0)
    for axis, upper in np.ndindex(d - 1, 2):
        at = (domain.lower, domain.upper)[upper][axis]
        x = domain.lower + rng.uniform(0.1, 0.9, (_POINTS, d)) * domain.extent
        x[:, axis] = at
        arrays = [residual.payload(x) for residual in problem.residuals]
        ones = [np.ones(_POINTS)] * count
        here = Equations(problem, arrays, ones, asked, terms=problem.terms[:count])
        values = here.linearized(solution.jets(here), p)
        of_side: OfPoint = []
        for rows, term in zip(conditions.rows, given, strict=True):
            places = rows.requests[0].x
            same = np.abs(places[:, axis] - at) <= _ROUNDING * domain.extent[axis]
            same &= places[:, -1] > domain.lower[-1]
            of_side += [_at(rows, term, k) for k in np.flatnonzero(same)[:_POINTS]]
        symbol = partial(_symbol, axis=axis, sign=1 - 2 * upper, extent=domain.extent)
        pairs = list(zip(here.rows, values, strict=True))
        points = ([_at(rows, term, k) for rows, term in pairs] for k in range(_POINTS))
        if any(_waves_are_free(symbol, point, of_side) for point in points):
            found.append(f"{domain.names[axis]} = {at:g}")
    return found


def _at(rows: Rows, term: Linearized, k: int) -> tuple[tuple[Operator, ...], Array]:
    return rows.requests[0].operators, term.by_jets[0][..., k]


def _symbol(rows: OfPoint, s: float, *, axis: int, sign: int, extent: Array) -> Array:
    """Return P_j of P(κ) = Σ_j P_j (κ/s)^j in units of a box, [5, k, m]."""
    along = np.full(len(extent), 1j * _OMEGA)
    along[-1], along[axis] = s, s * sign
    along, parts = along / extent, []
    first: list[Operator] = [(((i,), 1.0),) for i in range(len(extent))]
    for operators, slopes in rows:
        powers = np.zeros((slopes.shape[1], HIGHEST + 1), complex)
        powers[0, 0] = 1.0
        for q, operator in enumerate([*first, *operators], 1):
            for axes, c in operator:
                powers[q, axes.count(axis)] += c * np.prod(along[list(axes)])
        parts.append(np.einsum("kqm,qj->jkm", slopes, powers))
    return np.concatenate(parts, axis=1)


def _waves_are_free(symbol: Callable[..., Array], point: OfPoint, conditions: OfPoint) -> bool:
    """Return whether a side has fewer conditions than solutions that come in, some in a time."""
    once, twice = _incoming(symbol(point, _S)), _incoming(symbol(point, 2 * _S))
    # κ/s of a wave stays the same; (s/D)^(1/n) reaches as far as its inverse at s = 1.
    powers = 1 - 1 / np.arange(1, HIGHEST + 1)[:, None, None]
    near = np.abs(2**powers * twice[:, None] - once) <= _SAME * np.abs(once)
    near &= np.abs(once) * _S**powers < 1 / _SLOWEST
    if len(once) != len(twice) or not near.any():
        return False
    if not conditions:
        return True
    rows = np.hstack(list(symbol(conditions, _S)))
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows[sizes[:, 0] > 0] / sizes[sizes[:, 0] > 0]
    return bool(np.linalg.matrix_rank(rows, _ROUNDING) < len(once))


def _incoming(symbol: Array) -> Array:
    """Return the roots κ/s of det P with negative real parts, but for those of the slowest waves.

    None of equations that are fewer than components, or do not depend on some of these.
    """
    from scipy.linalg import eig

    (k, m), none = symbol.shape[1:], np.zeros(0)
    sizes = np.abs(symbol).sum(axis=0)
    if k != m or not (np.isfinite(sizes).all() and sizes.any(0).all() and sizes.any(1).all()):
        return none
    symbol = symbol / sizes.max(axis=1)[:, None]
    symbol = symbol / np.abs(symbol).sum(axis=0).max(axis=0)
    order = max(j for j, part in enumerate(symbol) if part.any())
    if not order or np.linalg.cond(np.tensordot(0.7 ** np.arange(5), symbol, 1)) > 1 / _ROUNDING:
        return none
    left, right = np.eye(m * order, k=m, dtype=complex), np.eye(m * order, dtype=complex)
    left[-m:], right[-m:, -m:] = -np.hstack(list(symbol[:order])), symbol[order]
    alpha, beta = eig(left, right, right=False, homogeneous_eigvals=True)
    finite = np.abs(alpha) * _SLOWEST < np.abs(beta)
    roots = alpha[finite] / beta[finite]
    return np.asarray(roots[roots.real < -_ROUNDING * np.abs(roots)])
