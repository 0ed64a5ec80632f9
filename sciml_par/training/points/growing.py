"""More points of the same kind, for a training that over-fits those that it has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sciml_par.problems.problem import Problem
from sciml_par.training.points.points import INTERIOR, Points

MOST_GROWTHS, MOST_POINTS = 3, 20_000
_BY_DEFAULT = 64


def number_after(points: Any, problem: Problem, growths: int) -> int:
    """Return how many interior points are asked for after as many growths."""
    given = Points.of(points).interior
    number = math.prod(given) if isinstance(given, tuple) else given or _BY_DEFAULT
    factor = 4 if problem.domain.dimension > 1 else 2
    return int(min(number * factor**growths, max(number, MOST_POINTS)))


def grown(points: Any, problem: Problem, growths: int) -> Points:
    """Return the points after as many growths; on surfaces they become as much denser.

    Numbers per axis become one number, but where the method "grid" was chosen.
    """
    given, d = Points.of(points), problem.domain.dimension
    after = number_after(points, problem, growths)
    ratio = after / number_after(points, problem, 0)
    on_surface = ratio ** ((d - 1) / d)

    def times(number: Any, factor: float) -> Any:
        return max(1, round(number * factor)) if isinstance(number, int) else number

    # Those of single conditions, also of those that have a number themselves.
    conditions = dict(given.conditions or {})
    for condition, term in problem.terms_of_conditions:
        own = None if condition.points_are_given else condition.number
        number = conditions.get(term.name, own)
        if number is not None:
            inside = condition.on == (INTERIOR,)
            conditions[term.name] = times(number, ratio if inside else on_surface)
    per_axis = isinstance(given.interior, tuple) and given.chosen_method(INTERIOR) is not None
    return given.with_changes(
        interior=tuple(math.ceil(n * ratio ** (1 / d)) for n in given.interior)
        if per_axis
        else after,
        boundary=times(given.boundary, on_surface),
        initial=times(given.initial, on_surface),
        conditions=conditions,
    )


def why_fixed(points: Any, problem: Problem) -> str | None:
    """Return why points cannot grow, as the end of a sentence, or None."""
    given, domain = Points.of(points), problem.domain
    reasons = (
        (isinstance(given.interior, np.ndarray), "the interior points are given as an array"),
        (given.adapt is not None, "adapt= chooses the points"),
        (given.resample_every is not None, "resample_every= draws other points"),
        (bool(given.batch_size), "batch_size= takes some of the points in each step"),
        (not problem.residuals, "the problem has no equation"),
        (not math.isfinite(domain.volume), f"no points can be drawn in {domain!r}"),
    )
    found = next((text for fixed, text in reasons if fixed), None)
    if found is None and number_after(points, problem, 1) == number_after(points, problem, 0):
        return f"there are {number_after(points, problem, 0):,} points, and {MOST_POINTS:,} at most"
    return found
