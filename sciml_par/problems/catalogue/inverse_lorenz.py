"""The three coefficients of the Lorenz system, found from observations of a trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.lorenz import START, velocity
from sciml_par.problems.catalogue.noise import with_noise
from sciml_par.problems.catalogue.references.trajectory import trajectory
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import Unknown

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
    """The Lorenz system on [0, end] with σ, ρ and β unknown, its trajectory observed at 31 times.

    The equations are those of `lorenz`, the observed times equally spaced; the trajectory begins at
    (−8, 7, 27), and is that of `references.trajectory`. Lu, Meng, Mao and Karniadakis (2021, SIAM
    Review 63, 208–228, section 4.4) have the same coefficients from 25 observations.

    Parameters
    ----------
    sigma, rho, beta : float
        Dimensionless; those that the observations are of.
    end : float
        The last time.
    noise : float
        The standard deviation of the errors of the observations, normally distributed, as a share
        of the root mean square of each component.
    seed : int
        Of these errors.
    """
    true = {"sigma": sigma, "rho": rho, "beta": beta}

    def equation(w: Any, t: Any, *, sigma: Any, rho: Any, beta: Any) -> Any:
        parts = velocity(*tf.split(w(t), 3, axis=1), sigma=sigma, rho=rho, beta=beta)
        return (derivative(w, t, 0) - tf.concat(parts, axis=1)) / 10

    solution = trajectory(lambda w: np.array(velocity(*w, **true)), START, end)
    times = np.linspace(0, end, 31)[:, None]
    return Problem(
        Interval(0, end, name="t"),
        equation,
        conditions=[
            Observations(times, with_noise(solution(times), noise, seed), name="observations")
        ],
        ansatz=lambda network, t: tf.constant([[0.0, 0.0, 10.0]], t.dtype) + 10 * network(t),
        outputs=("x", "y", "z"),
        unknowns={
            name: Unknown(start, lower=0, true=true[name]) for name, start in BEGINNINGS.items()
        },
        exact=solution,
        name="inverse Lorenz",
    )


ENTRY = CatalogueEntry(
    "inverse-lorenz",
    "x′ = σ (y − x), y′ = x (ρ − z) − y, z′ = x y − β z, observed at 31 times: σ, ρ, β are sought",
    inverse_lorenz,
    Suggestion(300, width=24, depth=2, steps=200),
)
