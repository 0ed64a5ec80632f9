"""The coefficients of second and first derivatives, which tell where and how u is singular."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import matrix_of, order_of
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import zero_jets
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns

Array = npt.NDArray[np.float64]
Principal = Callable[[Array], list[tuple[Array, Array]]]
"""x: [n, d] -> `principal_of` the equations there."""


def principal_of(equations: Equations, p: Array | None = None) -> list[tuple[Array, Array]]:
    """Return the coefficients of second and of first derivatives, [n, d, d] and [n, d], at u = 0.

    Those of each component in each equation that has second ones (local).

    p : of unknowns, [q]; by default at their start.
    """
    n, d = len(equations.rows[0].factors), equations.problem.domain.dimension
    p, found = initial_unknowns(equations.problem.unknowns, 0) if p is None else p, []
    terms = equations.linearized(zero_jets(equations), p)
    for rows, term in zip(equations.rows, terms, strict=True):
        if rows.fixed:  # its points have no derivatives of their own
            continue
        shape = term.by_jets[0].shape if term.by_jets else (0, 0, 0)
        for j, component in np.ndindex(shape[0], shape[2]):
            second, first = np.zeros((n, d, d)), np.zeros((n, d))
            for request, slopes in zip(rows.requests, term.by_jets, strict=True):
                first += slopes[j, 1 : 1 + d, component].T
                for operator, slope in zip(request.operators, slopes[j, 1 + d :], strict=True):
                    if order_of(operator) == 2:
                        second += matrix_of(operator, d) * slope[component][:, None, None]
            found += [(second, first)] if second.any() else []
    return found


def has_plain_sides(problem: Problem) -> bool:
    """Return whether the domain ends at its sides, and points are in its coordinates (local)."""
    # Where it is periodic, the domain continues behind what seems to be a corner.
    periodic = any(isinstance(each, Periodic) for each in problem.conditions)
    return not periodic and problem.ansatz is None and problem.scaled_box is None
