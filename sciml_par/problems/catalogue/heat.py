"""The heat equation on an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import exp, sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem


def heat(*, diffusivity: float = 0.1) -> Problem:
    """u_t = κ u_xx on [0, 1] × [0, 1], u = 0 at both ends, u = sin πx + ½ sin 3πx at t = 0.

        u = e^{−κπ²t} sin πx + ½ e^{−9κπ²t} sin 3πx

    Parameters
    ----------
    diffusivity : float
        κ, length² per time.
    """
    rate = diffusivity * np.pi**2

    def solution(x: Any) -> Any:
        place, time = np.pi * x[:, :1], rate * x[:, 1:]
        return exp(-time) * sin(place) + 0.5 * exp(-9 * time) * sin(3 * place)

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 1) - diffusivity * derivative(u, x, 0, 0)

    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            Initial(solution),
        ],
        exact=solution,
        name="heat",
    )


ENTRY = CatalogueEntry(
    "heat",
    "u_t = 0.1 u_xx on [0, 1] × [0, 1], u = 0 at both ends, sin πx + ½ sin 3πx at first",
    heat,
    Suggestion((30, 30), boundary=160, width=20, depth=2, steps=300),
)
