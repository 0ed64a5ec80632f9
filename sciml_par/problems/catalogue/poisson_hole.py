"""The Poisson equation in a square with a round hole."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, row_product, row_sum, sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def poisson_hole(*, radius: float = 0.5) -> Problem:
    """−Δu = f in [−1, 1]² without the disc |x| < a, u = 0 on the square and on the circle.

        u = (x² + y² − a²) cos(πx/2) cos(πy/2)

    and f is what it needs (a manufactured solution).

    Parameters
    ----------
    radius : float
        a, between 0 and 1.

    Raises
    ------
    InputError
        The radius is not between 0 and 1.
    """
    if not 0 < radius < 1:
        raise InputError(f"poisson_hole: the radius must be between 0 and 1, got {radius!r}")
    half = np.pi / 2

    def solution(x: Any) -> Any:
        return (row_sum(x**2) - radius**2) * row_product(cos(half * x))

    def source(x: Any) -> Any:
        """−Δ(g c) = −(c Δg + 2 ∇g·∇c + g Δc), with g = |x|² − a² and c = cos cos."""
        a, b = half * x[:, :1], half * x[:, 1:]
        slopes = -half * columns(sin(a) * cos(b), cos(a) * sin(b))
        return 2 * half**2 * solution(x) - 4 * cos(a) * cos(b) - 4 * row_sum(x * slopes)

    def equation(u: Any, x: Any, f: Any) -> Any:
        return -laplacian(u, x) - f

    return Problem(
        Box([-1, -1], [1, 1]) - Ball([0, 0], radius),
        Residual(equation, data=source),
        conditions=[Dirichlet(0.0)],
        exact=solution,
        name="Poisson with a hole",
    )


ENTRY = CatalogueEntry(
    "poisson-hole",
    "−Δu = f in [−1, 1]² with a round hole, u = 0 on both boundaries",
    poisson_hole,
    Suggestion(1000, boundary=240, method="sobol", width=20, depth=2, steps=200),
)
