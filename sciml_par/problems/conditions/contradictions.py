"""Conditions that contradict one another, and conditions given twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.valued import is_data
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]

_NUMBER = 64
_MOST_DIMENSIONS = 5
_ROUNDING = 1e-6
_TOLERATED = 1e-3
"""Tolerated difference of values, relative to the largest one, as for measured initial values."""


def contradictions(
    conditions: Sequence[Condition], names: Sequence[str], domain: Domain, outputs: int
) -> list[str]:
    """Return sentences about different values of u that two conditions give at the same point.

    Conditions that give u itself, on faces or where a predicate says so, are compared at points of
    a grid on the boundary and, on a box, at corners and in the middle of edges. A difference is one
    that is larger than 0.1 % of the largest value that either demands anywhere.
    """
    found = []
    for (one, a), (other, b) in combinations(zip(names, conditions, strict=True), 2):
        if _is_same(a, b):
            found.append(
                f"the condition {one!r} is given twice, as {other!r} too; leave one out, or give "
                f"one of them twice the weight"
            )
        elif _gives_u(a) and _gives_u(b):
            try:
                place = _difference(a, b, domain, outputs)
            except Exception:  # errors of a single condition are raised elsewhere
                continue
            if place is not None:
                found.append(
                    f"the conditions {one!r} and {other!r} contradict one another at {place}; no "
                    f"solution has both, and the loss cannot become 0. Give each its own faces "
                    f"with on= or where=, if that is not meant"
                )
    return found


def _is_same(a: Condition, b: Condition) -> bool:
    return a is b or (type(a) is type(b) and a == b and a.own is b.own)


def _gives_u(condition: Condition) -> bool:
    if not isinstance(condition, (Dirichlet, Initial)):
        return False
    given = type(condition) is Dirichlet or (type(condition) is Initial and condition.order == 0)
    known = given and is_data(condition.value)
    return known and not isinstance(condition.own, tuple) and condition.on_boundary


def _difference(a: Any, b: Any, domain: Domain, outputs: int) -> str | None:
    """Return the place where two conditions differ most, and their values there."""
    shared = [c for c in _components(a, outputs) if c in _components(b, outputs)]
    x = _candidates(a, b, domain)
    of_a, of_b = a.holds_at(x, domain), b.holds_at(x, domain)
    if not shared or not (of_a & of_b).any():
        return None
    ours, theirs = (_values(c, x[of_c], domain, outputs) for c, of_c in ((a, of_a), (b, of_b)))
    scale = max(float(np.max(np.abs(values[:, shared]))) for values in (ours, theirs))
    x, ours, theirs = x[of_a & of_b], ours[of_b[of_a]][:, shared], theirs[of_a[of_b]][:, shared]
    gaps = np.abs(ours - theirs)
    row, column = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    if gaps[row, column] <= max(_ROUNDING, _TOLERATED * scale):
        return None
    point = ", ".join(f"{n} = {v:g}" for n, v in zip(domain.names, x[row], strict=True))
    component = f"component {shared[column]}: " if outputs > 1 else ""
    return f"{point} ({component}{ours[row, column]:g} and {theirs[row, column]:g})"


def _components(condition: Any, outputs: int) -> tuple[int, ...]:
    return tuple(range(outputs)) if condition.component is None else condition.component


def _candidates(a: Condition, b: Condition, domain: Domain) -> FloatArray:
    found = [each.draw(domain, _NUMBER)[0] for each in (a, b)]
    if isinstance(domain, Box) and domain.dimension <= _MOST_DIMENSIONS:
        coarse = domain.grid([3] * domain.dimension)
        found.append(coarse[domain.outward_normals(coarse).any(axis=1)])
    return np.concatenate(found)


def _values(condition: Any, x: FloatArray, domain: Domain, outputs: int) -> FloatArray:
    """Return the values of each component: [n, m], NaN for those without a condition."""
    values = np.full((len(x), outputs), np.nan)
    given = condition.completed((x, np.zeros_like(x)), domain)[2]
    values[:, list(_components(condition, outputs))] = given
    return values
