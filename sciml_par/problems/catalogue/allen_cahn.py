"""The Allen–Cahn equation: two phases with sharp fronts between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.references.allen_cahn import solution
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators import derivative
from sciml_par.problems.problem import Problem

DIFFUSIVITY, GROWTH = 1e-4, 5.0


def allen_cahn() -> Problem:
    """u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic in x, u = x² cos πx at t = 0.

    The initial values are built in, u = x² cos πx + t N (Raissi, Perdikaris and Karniadakis 2019,
    J. Comput. Phys. 378, 686–707). Their slope jumps from x = 1 to x = −1, and keeps the jump where
    the network N is periodic by construction; that of the solution does not jump for t > 0. With so
    small a diffusivity the error that this makes stays near the ends, about 1e-3 of u. The
    reference is `references.allen_cahn`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _equation,
        conditions=[Periodic("x", order=0)],
        ansatz=lambda network, x: x[:, :1] ** 2 * tf.cos(np.pi * x[:, :1]) + x[:, 1:] * network(x),
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
    "u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic, u = x² cos πx at first",
    allen_cahn,
    Suggestion(4000, boundary=100, method="sobol", width=20, depth=3, steps=150, periodic=("x",)),
    goal=1e-2,
)
