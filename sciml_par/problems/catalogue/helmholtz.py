"""The Helmholtz equation in a square, with more waves in y than in x."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def helmholtz(
    *, k: float = 1.0, waves: tuple[int, int] = (1, 4), periodic: bool = False
) -> Problem:
    """Δu + k² u = f in [−1, 1]², u = 0 on the boundary; u = sin aπx sin bπy.

    Wang, Teng and Perdikaris (2021), SIAM J. Sci. Comput. 43, A3055, eq. (36).

    Parameters
    ----------
    k : float
        Wave number, per length.
    waves : two ints
        a and b; u vanishes on the boundary for integers.
    periodic : bool
        Whether u is periodic in x and y rather than zero on the boundary; so is the solution.
    """
    factors = np.pi * np.array(waves, np.float64)

    def solution(x: Any) -> Any:
        return sin(factors[0] * x[:, :1]) * sin(factors[1] * x[:, 1:])

    def equation(u: Any, x: Any, f: Any) -> Any:
        return laplacian(u, x) + k**2 * u(x) - f

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(equation, data=lambda x: (k**2 - np.sum(factors**2)) * solution(x)),
        conditions=[Periodic("x"), Periodic("y")] if periodic else [Dirichlet(0.0)],
        exact=solution,
        name="Helmholtz, periodic" if periodic else "Helmholtz",
    )


ENTRIES = (
    CatalogueEntry(
        "helmholtz",
        "Δu + u = f in [−1, 1]², u = 0 on the boundary; u = sin πx sin 4πy",
        helmholtz,
        Suggestion((48, 48), boundary=240, width=20, depth=3, steps=300),
    ),
    CatalogueEntry(
        "helmholtz-periodic",
        "Δu + u = f in [−1, 1]², periodic in x and y; u = sin πx sin 4πy",
        partial(helmholtz, periodic=True),
        Suggestion((30, 48), boundary=80, width=20, depth=2, steps=100, periodic=("x", "y")),
    ),
)
