"""The Korteweg–de Vries equation: a wave that breaks up into solitons."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.references.korteweg_de_vries import solution
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

ADVECTION, DISPERSION = 1.0, 0.022**2


def korteweg_de_vries() -> Problem:
    """u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic in x, u = cos πx at t = 0.

    The initial values are built in, u = cos πx + t N. Zabusky and Kruskal (1965, Phys. Rev. Lett.
    15, 240–243) found solitons in it. The reference is `references.korteweg_de_vries`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _equation,
        conditions=[Periodic("x", order=(0, 1, 2))],
        ansatz=lambda network, x: tf.cos(np.pi * x[:, :1]) + x[:, 1:] * network(x),
        exact=_reference,
        name="Korteweg–de Vries",
    )


def _equation(u: Any, x: Any) -> Any:
    steepening = ADVECTION * u(x) * derivative(u, x, 0)
    return derivative(u, x, 1) + steepening + DISPERSION * derivative(u, x, 0, 0, 0)


def _reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return solution(ADVECTION, DISPERSION)(x)


ENTRY = CatalogueEntry(
    "kdv",
    "u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic, u = cos πx at first",
    korteweg_de_vries,
    Suggestion(5000, boundary=100, method="sobol", width=20, depth=3, steps=250, periodic=("x",)),
    goal=1e-2,
)
