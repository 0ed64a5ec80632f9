"""The error of a solution by random features, by a second one with other features and points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import KNOWN, ErrorEstimate
from sciml_par.training.estimate.estimate import ROUNDING, differences_of_unknowns
from sciml_par.training.estimate.side_by_side import Solved

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """e(x) = (u(x) − v(x)) / (1 + ρ²)^½ of two solutions, of which v has ρ times the residual of u.

    If both errors are independent and in proportion to the residuals, |u − v|² is the sum of their
    squares, and this is the size of the error of u.
    """

    first: Solved
    second: Solved

    @property
    def factor(self) -> float:
        """(1 + ρ²)^-½."""
        return 1 / math.sqrt(1 + self.second.after / self.first.after)

    def __call__(self, x: Array) -> Array:
        """Return e at x: [n, d] -> [n, m]."""
        return self.factor * (self.second.field_values(x) - self.first.field_values(x))


def error_by_two(
    problem: Problem,
    first: Solved,
    second: Solved,
    at: tuple[Array, Array],
    *,
    fall: float,
    seconds: float,
) -> ErrorEstimate:
    """Return the estimated error of the first of two solutions (local).

    Parameters
    ----------
    at : the evaluation points, [k, d], and which of them lie in the domain, [k].
    fall : by which the residual at unseen points has fallen since there were fewer features. If it
        has not, both may have the same error, as near a layer that no point sees.
    seconds : that the second solution took.
    """
    e = Difference(first, second)
    x, inside = at
    values, u = e(x), first.field_values(x)[inside]
    relative = float(np.linalg.norm(values[inside]) / np.linalg.norm(u))
    at_rounding = first.after <= ROUNDING**2 * first.of_zero
    why = ""
    if not math.isfinite(relative):
        why = "two solutions with different random features have no finite difference."
    elif fall < KNOWN and not at_rounding:
        why = (
            f"more random features lower the residual at unseen points by a factor of {fall:.1f} "
            f"only; the solution is too rough for them somewhere, as at a shock, a layer or a "
            f"corner."
        )
    if why:
        return ErrorEstimate.not_known(problem.outputs, why, reliability=fall, seconds=seconds)
    own, theirs = (s.end[s.stack.layout.size_of_network :] for s in (first, second))
    sizes = differences_of_unknowns(problem, own, theirs)
    return ErrorEstimate(
        relative,
        np.sqrt(np.mean(values[inside] ** 2, axis=0)),
        fall,
        values=values,
        unknowns={name: e.factor * size for name, size in sizes.items()},
        seconds=seconds,
        between=True,
        evaluate=e,
    )
