"""The Poisson equation in the unit square."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import row_product, sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def poisson_square(*, built_in: bool = False) -> Problem:
    """−Δu = 2π² sin πx sin πy in the unit square, u = 0 on its boundary; u = sin πx sin πy.

    Parameters
    ----------
    built_in : bool
        Whether u = x (1 − x) y (1 − y) N, which is zero on the boundary, rather than that the
        boundary values are a term of the loss.
    """
    return Problem(
        Box([0, 0], [1, 1]),
        Residual(_equation, data=lambda x: 2 * np.pi**2 * _solution(x)),
        conditions=[] if built_in else [Dirichlet(0.0)],
        ansatz=_zero_on_the_boundary if built_in else None,
        exact=_solution,
        name="Poisson, 2-D",
    )


def _equation(u: Any, x: Any, f: Any) -> Any:
    return -laplacian(u, x) - f


def _solution(x: Any) -> Any:
    return row_product(sin(np.pi * x))


def _zero_on_the_boundary(network: Any, x: Any) -> Any:
    return row_product(x * (1 - x)) * network(x)


ENTRY = CatalogueEntry(
    "poisson-2d",
    "−Δu = f in the unit square, u = 0 on its boundary",
    poisson_square,
    Suggestion((30, 30), boundary=120, width=64, depth=1, steps=200),
)
