"""The Lorenz system of three ordinary differential equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.references.trajectory import trajectory
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

START = (-8.0, 7.0, 27.0)


def lorenz(
    *,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8 / 3,
    end: float = 1.0,
    fading: float = 4.0,
) -> Problem:
    """x′ = σ (y − x), y′ = x (ρ − z) − y, z′ = x y − β z on [0, end], from (−8, 7, 27).

    The initial values are built in: w = w₀ + 10 t N(t). The residual is multiplied by e^{−κt}, as
    what is wrong early makes all wrong that comes later. The reference is `references.trajectory`
    (Lorenz 1963, J. Atmos. Sci. 20, 130–141).

    Parameters
    ----------
    sigma, rho, beta : float
        Dimensionless.
    end : float
        The last time. Errors grow with it: the system is chaotic.
    fading : float
        κ, per time.
    """

    coefficients = {"sigma": sigma, "rho": rho, "beta": beta}

    def equation(w: Any, t: Any) -> Any:
        right = tf.concat(velocity(*tf.split(w(t), 3, axis=1), **coefficients), axis=1)
        return tf.exp(-fading * t) * (derivative(w, t, 0) - right) / 10

    return Problem(
        Interval(0, end, name="t"),
        equation,
        ansatz=lambda network, t: tf.constant([START], t.dtype) + 10 * t * network(t),
        outputs=("x", "y", "z"),
        exact=trajectory(lambda w: np.array(velocity(*w, **coefficients)), START, end),
        name="Lorenz",
    )


def velocity(x: Any, y: Any, z: Any, *, sigma: Any, rho: Any, beta: Any) -> tuple[Any, Any, Any]:
    """Return the right sides of the three equations, of arrays or tensors of any shape (local)."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


ENTRY = CatalogueEntry(
    "lorenz",
    "x′ = 10 (y − x), y′ = x (28 − z) − y, z′ = x y − 8z/3 on [0, 1], from (−8, 7, 27)",
    lorenz,
    Suggestion(200, width=32, depth=2, steps=150),
)
