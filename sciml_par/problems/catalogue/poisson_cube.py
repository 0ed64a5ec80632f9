"""The Poisson equation in the unit cube of any dimension."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import cos, row_sum
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def poisson_cube(*, dimension: int = 5) -> Problem:
    """−Δu = π² Σ cos πx_i in the unit cube, with the values of u = Σ cos πx_i on its boundary.

    Müller and Zeinhofer (2023), arXiv:2302.13163, section 4, solve it in five dimensions.

    Raises
    ------
    InputError
        The dimension is not an integer of at least 1.
    """
    d = checked_integer(dimension, "poisson_cube: dimension", least=1)
    return Problem(
        Box([0] * d, [1] * d),
        Residual(_equation, data=lambda x: np.pi**2 * _solution(x)),
        conditions=[Dirichlet(_solution)],
        exact=_solution,
        name=f"Poisson, {d}-D",
    )


def _equation(u: Any, x: Any, f: Any) -> Any:
    return -laplacian(u, x) - f


def _solution(x: Any) -> Any:
    return row_sum(cos(np.pi * x))


ENTRIES = tuple(
    CatalogueEntry(
        f"poisson-{d}d",
        f"−Δu = f in the unit cube of {d} dimensions, u given on its boundary",
        partial(poisson_cube, dimension=d),
        Suggestion(
            points,
            boundary=boundary,
            width=width,
            depth=1,
            steps=steps,
        ),
    )
    for d, points, boundary, width, steps in (
        (5, 3000, 500, 64, 150),
        (10, 6000, 2000, 128, 200),
    )
)
