"""The Allen–Cahn equation: two phases with sharp fronts between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.places import at
from sciml_par.problems.catalogue.references.allen_cahn import solution
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.neumann import Neumann
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators import derivative
from sciml_par.problems.problem import Problem

DIFFUSIVITY, GROWTH = 1e-4, 5.0


def allen_cahn() -> Problem:
    """u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], u = x² cos πx at t = 0.

    The solution of the periodic problem (Raissi, Perdikaris and Karniadakis 2019, J. Comput. Phys.
    378, 686–707) is even in x, and so it is that with u_x = 0 at both ends. The reference is
    `references.allen_cahn`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _equation,
        conditions=[
            Dirichlet(
                lambda x: x[:, :1] ** 2 * tf.cos(np.pi * x[:, :1]),
                where=at(1, 0.0),
            ),
            Neumann(0.0, where=at(0, -1.0, 1.0), weight=1.0),
        ],
        exact=_reference,
        name="Allen–Cahn",
    )


def _equation(u: Any, x: Any) -> Any:
    reaction = GROWTH * (u(x) - u(x) ** 3)
    return derivative(u, x, 1) - DIFFUSIVITY * derivative(u, x, 0, 0) - reaction


def _reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return solution(DIFFUSIVITY, GROWTH)(x)


ENTRY = CatalogueEntry(
    "allen-cahn",
    "u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], u = x² cos πx at first",
    allen_cahn,
    Suggestion(2500, boundary=300, initial=200, method="sobol", width=20, depth=3, steps=300),
    goal=1e-2,
)
