"""The wave equation on a string that is held at both ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import cos, sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem


def wave(*, speed: float = 1.0) -> Problem:
    """u_tt = c² u_xx on [0, 1] × [0, 2], u = 0 at both ends, u and u_t = 0 given at t = 0.

        u = sin πx cos cπt + ½ sin 3πx cos 3cπt

    Parameters
    ----------
    speed : float
        c, length per time.
    """

    def solution(x: Any) -> Any:
        place, time = np.pi * x[:, :1], speed * np.pi * x[:, 1:]
        return sin(place) * cos(time) + 0.5 * sin(3 * place) * cos(3 * time)

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 1, 1) - speed**2 * derivative(u, x, 0, 0)

    return Problem(
        Box([0, 0], [1, 2], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            Initial(solution, velocity=0.0),
        ],
        exact=solution,
        name="wave",
    )


ENTRY = CatalogueEntry(
    "wave",
    "u_tt = u_xx on [0, 1] × [0, 2], u = 0 at both ends, at rest at first",
    wave,
    Suggestion((26, 52), boundary=240, width=20, depth=2, steps=150),
)
