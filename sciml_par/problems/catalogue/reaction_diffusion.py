"""Fisher's equation of diffusion and logistic growth: a travelling front."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import exp
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem


def reaction_diffusion(*, diffusivity: float = 0.005, growth: float = 3.0) -> Problem:
    """u_t = D u_xx + ρ u (1 − u) on [0, 1] × [0, 2], with the values of the solution around.

        u = [1 + exp(√(ρ/6D) (x − x₀) − 5ρt/6)]^{−2},     x₀ = 0.2

    is a front that travels at the speed 5 √(ρD/6) (Ablowitz and Zeppetella 1979, Bull. Math. Biol.
    41, 835–840).

    Parameters
    ----------
    diffusivity : float
        D, length² per time.
    growth : float
        ρ, per time.
    """

    def solution(x: Any) -> Any:
        steepness = np.sqrt(growth / (6 * diffusivity))
        return (1 + exp(steepness * (x[:, :1] - 0.2) - 5 * growth / 6 * x[:, 1:])) ** -2.0

    def equation(u: Any, x: Any) -> Any:
        reaction = growth * u(x) * (1 - u(x))
        return derivative(u, x, 1) - diffusivity * derivative(u, x, 0, 0) - reaction

    return Problem(
        Box([0, 0], [1, 2], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(solution, on=("x=lower", "x=upper")),
            Initial(solution),
        ],
        exact=solution,
        name="reaction–diffusion",
    )


ENTRY = CatalogueEntry(
    "reaction-diffusion",
    "u_t = 0.005 u_xx + 3 u (1 − u) on [0, 1] × [0, 2]: a travelling front",
    reaction_diffusion,
    Suggestion((32, 40), boundary=240, width=20, depth=2, steps=200),
    goal=1e-2,
)
