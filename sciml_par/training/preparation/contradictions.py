"""Conditions that contradict one another, or are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Arrays

_TOLERATED, _ROUNDING = 1e-3, 1e-6
"""Differences relative to the largest value, as measured values have errors, and absolute."""


def contradictions(problem: Problem, arrays: Sequence[Arrays]) -> Iterator[str]:
    """Yield a sentence for equal conditions, and for values of u that differ at one point.

    `arrays` are those of the conditions.
    """
    known = zip(problem.terms_of_conditions, arrays, strict=True)
    for ((a, term), ours), ((b, other), theirs) in combinations(known, 2):
        both = f"the conditions {term.name!r} and {other.name!r}"
        if a is b or (type(a) is type(b) and a == b and a.own is b.own):
            yield f"{both} are the same; leave one of the two out, or give it twice the weight."
        elif _gives_u(a) and _gives_u(b):
            text = _difference(problem, a, b, ours, theirs)
            text = text or _difference(problem, b, a, theirs, ours)
            if text:
                yield (
                    f"{both} contradict one another: {text}, so the loss cannot become 0. Restrict "
                    f"them to separate faces with on= or where=."
                )


def _gives_u(condition: Any) -> bool:
    given = type(condition) is Dirichlet or (type(condition) is Initial and condition.order == 0)
    return given and condition.on_boundary and not isinstance(condition.own, tuple)


def _difference(problem: Problem, a: Any, b: Any, ours: Arrays, theirs: Arrays) -> str | None:
    """Return where, of this rank's points of a, the values of b differ most, if they do."""
    x, normals, *_ = ours
    found = []
    try:
        scale = max(np.max(np.abs(each[2]), initial=0.0) for each in (ours, theirs))
        both = b.holds_at(x, problem.domain)
        for condition in (a, b):
            values = np.full((int(both.sum()), problem.outputs), np.nan)
            given = condition.completed((x[both], normals[both]), problem.domain)[2]
            place: Any = condition.component
            values[:, slice(None) if place is None else list(place)] = given
            found.append(values)
    except Exception:  # unknown values, or values for the condition's points alone
        return None
    gaps = np.nan_to_num(np.abs(found[0] - found[1]))
    if not np.any(gaps > max(_ROUNDING, _TOLERATED * scale)):
        return None
    i, j = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    domain = problem.domain
    point = ", ".join(f"{n} = {v:g}" for n, v in zip(domain.names, x[both][i], strict=True))
    u = problem.output_names[j]
    return f"at {point} they give {u} = {found[0][i, j]:g} and {found[1][i, j]:g}"
