"""The Helmholtz equation in a square, with more waves in y than in x."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.residual import Residual


def helmholtz(*, k: float = 1.0, waves: tuple[int, int] = (1, 4)) -> Problem:
    """Δu + k² u = f in [−1, 1]², u = 0 on the boundary; u = sin aπx sin bπy.

    Wang, Teng and Perdikaris (2021), SIAM J. Sci. Comput. 43, A3055, eq. (36).

    Parameters
    ----------
    k : float
        Wave number, per length.
    waves : two ints
        a and b; u vanishes on the boundary for integers.
    """
    factors = np.pi * np.array(waves, np.float64)

    def solution(x: Any) -> Any:
        return sin(factors[0] * x[:, :1]) * sin(factors[1] * x[:, 1:])

    def equation(u: Any, x: Any, f: Any) -> Any:
        return laplacian(u, x) + k**2 * u(x) - f

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(equation, data=lambda x: (k**2 - np.sum(factors**2)) * solution(x)),
        conditions=[Dirichlet(0.0)],
        exact=solution,
        name="Helmholtz",
    )


ENTRY = CatalogueEntry(
    "helmholtz",
    "Δu + u = f in [−1, 1]², u = 0 on the boundary; u = sin πx sin 4πy",
    helmholtz,
    Suggestion((48, 48), boundary=240, width=20, depth=3, steps=300),
)
