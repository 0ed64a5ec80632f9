"""Linear advection around a circle."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import sin
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem


def advection(*, speed: float = 2.0) -> Problem:
    """u_t + c u_x = 0 on [0, 1] × [0, 1], periodic in x, u = sin 2πx at t = 0.

        u = sin 2π(x − ct)

    Parameters
    ----------
    speed : float
        c > 0, length per time.
    """

    def solution(x: Any) -> Any:
        return sin(2 * np.pi * (x[:, :1] - speed * x[:, 1:]))

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 1) + speed * derivative(u, x, 0)

    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[
            Initial(solution),
            Periodic("x", order=0),
        ],
        exact=solution,
        name="advection",
    )


ENTRY = CatalogueEntry(
    "advection",
    "u_t + 2 u_x = 0 on [0, 1] × [0, 1], periodic in x, u = sin 2πx at first",
    advection,
    Suggestion((30, 40), boundary=200, width=40, depth=1, steps=200),
)
