"""Unknown coefficients, found from observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import exp, sin
from sciml_par.problems.catalogue.ordinary import LORENZ_START, lorenz_velocity
from sciml_par.problems.catalogue.references.spectral import trajectory
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import Unknown

FloatArray = npt.NDArray[np.float64]


def observed_with(
    places: FloatArray, values: FloatArray, share: float, seed: int, name: str = ""
) -> Observations:
    """Return observations of u_ij + σ_j ε_ij, with ε from N(0, 1) and σ_j = share √(mean_i u_ij²).

    They know their σ, unless it is zero. places: [n, d], values: [n, c].
    """
    deviations = share * np.sqrt(np.mean(np.square(values), axis=0))
    errors = np.random.default_rng([seed, 1]).normal(size=values.shape)
    noise = np.broadcast_to(deviations, values.shape) if share > 0 else None
    return Observations(places, values + deviations * errors, noise=noise, name=name)


def inverse_diffusion(
    *,
    diffusivity: float = 0.1,
    observed: int = 20,
    noise: float = 0.0,
    initial: bool = False,
    seed: int = 0,
) -> Problem:
    """u_t = D u_xx on [0, 1] × [0, 1], u = 0 at both ends; D is unknown, u is observed.

        u = e^{−Dπ²t} sin πx

    is observed at uniformly random points. D starts at 1 and is positive.

    Parameters
    ----------
    diffusivity : float
        The true D, length² per time.
    observed : int
        The number of observations.
    noise : float
        The standard deviation of their normally distributed errors, relative to the root mean
        square of the observed values. The observations know it.
    initial : bool
        Whether u(x, 0) = sin πx is a condition. Without it, the observations determine the initial
        values as well, and noisy ones only poorly: D has a larger deviation.
    seed : int
        Of the points and the errors.
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
            *([Initial(lambda x: sin(np.pi * x[:, :1]))] if initial else []),
            observed_with(places, solution(places), noise, seed),
        ],
        unknowns={"D": Unknown(1.0, lower=0, true=diffusivity)},
        exact=solution,
        name="inverse diffusion",
    )


BEGINNINGS = {"sigma": 5.0, "rho": 5.0, "beta": 1.0}


def inverse_lorenz(
    *,
    sigma: float = 10.0,
    rho: float = 15.0,
    beta: float = 8 / 3,
    end: float = 3.0,
    noise: float = 0.0,
    seed: int = 0,
) -> Problem:
    """Build the Lorenz system on [0, end] with σ, ρ and β unknown, observed at 31 times.

    The equations are those of `lorenz`. The times are equally spaced, and the trajectory starts at
    (−8, 7, 27); `references.spectral.trajectory` computes it. Lu, Meng, Mao and Karniadakis (2021,
    SIAM Review 63, 208–228, section 4.4) find the same coefficients from 25 observations.

    Parameters
    ----------
    sigma, rho, beta : float
        The true coefficients, dimensionless.
    end : float
        The last time.
    noise : float
        The standard deviation of the normally distributed errors of the observations, relative to
        the root mean square of each component. The observations know it.
    seed : int
        Of these errors.
    """
    true = {"sigma": sigma, "rho": rho, "beta": beta}

    def equation(w: Any, t: Any, *, sigma: Any, rho: Any, beta: Any) -> Any:
        parts = lorenz_velocity(*tf.split(w(t), 3, axis=1), sigma=sigma, rho=rho, beta=beta)
        return (derivative(w, t, 0) - tf.concat(parts, axis=1)) / 10

    solution = trajectory(lambda w: np.array(lorenz_velocity(*w, **true)), LORENZ_START, end)
    times = np.linspace(0, end, 31)[:, None]
    return Problem(
        Interval(0, end, name="t"),
        equation,
        conditions=[observed_with(times, solution(times), noise, seed, name="observations")],
        ansatz=lambda network, t: tf.constant([[0.0, 0.0, 10.0]], t.dtype) + 10 * network(t),
        outputs=("x", "y", "z"),
        unknowns={
            name: Unknown(start, lower=0, true=true[name]) for name, start in BEGINNINGS.items()
        },
        exact=solution,
        name="inverse Lorenz",
    )


ENTRIES = (
    CatalogueEntry(
        "inverse-diffusion",
        "u_t = D u_xx on [0, 1] × [0, 1], u = 0 at both ends, 20 observations of u: D is sought",
        inverse_diffusion,
        Suggestion(800, boundary=80, method="sobol", width=16, depth=2, steps=120),
    ),
    CatalogueEntry(
        "inverse-lorenz",
        "x′ = σ (y − x), y′ = x (ρ − z) − y, z′ = x y − β z, observed at 31 times: "
        "σ, ρ, β are sought",
        inverse_lorenz,
        Suggestion(300, width=24, depth=2, steps=200),
    ),
)
