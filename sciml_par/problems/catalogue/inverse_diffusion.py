"""A diffusivity that is found from observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import exp, sin
from sciml_par.problems.catalogue.noise import with_noise
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import Unknown


def inverse_diffusion(
    *, diffusivity: float = 0.1, observed: int = 20, noise: float = 0.0, seed: int = 0
) -> Problem:
    """u_t = D u_xx on [0, 1] × [0, 1], u = 0 at both ends; D is sought, u is observed inside.

        u = e^{−Dπ²t} sin πx

    at places that are uniform in the domain. D begins at 1 and is positive.

    Parameters
    ----------
    diffusivity : float
        D, length² per time, that the observations are of.
    observed : int
        How many observations there are.
    noise : float
        The standard deviation of their errors, normally distributed, as a share of the root mean
        square of what is observed.
    seed : int
        Of the places and the errors.
    """

    def solution(x: Any) -> Any:
        return exp(-diffusivity * np.pi**2 * x[:, 1:]) * sin(np.pi * x[:, :1])

    def equation(u: Any, x: Any, *, D: Any) -> Any:
        return derivative(u, x, 1) - D * derivative(u, x, 0, 0)

    places = np.random.default_rng(seed).uniform(size=(observed, 2))
    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            Observations(places, with_noise(solution(places), noise, seed)),
        ],
        unknowns={"D": Unknown(1.0, lower=0, true=diffusivity)},
        exact=solution,
        name="inverse diffusion",
    )


ENTRY = CatalogueEntry(
    "inverse-diffusion",
    "u_t = D u_xx on [0, 1] × [0, 1], u = 0 at both ends, 20 observations of u: D is sought",
    inverse_diffusion,
    Suggestion(800, boundary=80, method="sobol", width=16, depth=2, steps=120),
)
