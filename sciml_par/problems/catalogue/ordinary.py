"""Ordinary differential equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import check_not_negative, check_positive
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, in_windows
from sciml_par.problems.catalogue.functions import cos, exp, sin
from sciml_par.problems.catalogue.references.spectral import trajectory
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.domains.space_time import Time
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem


def oscillator(
    *, mass: float = 1.0, friction: float = 4.0, stiffness: float = 6400.0, end: float = 1.0
) -> Problem:
    """m u″ + μ u′ + k u = 0 on [0, T], u = 1 and u′ = 0 at first: a damped oscillator.

        u = e^{−δt} (cos ωt + δ/ω sin ωt),     δ = μ/2m,     ω = √(k/m − δ²)

    The default parameters, δ = 2 and ω₀ = √(k/m) = 80, give 12.7 periods; Moseley, Markham and
    Nissen-Meyer (2023, Adv. Comput. Math. 49, 62) solve this example with overlapping windows, in
    the programs of their article. The equation is divided by k.

    Parameters
    ----------
    mass, friction, stiffness : float
        m > 0, μ ≥ 0 and k > 0, with μ² < 4mk; units of mass, mass per time and mass per time².
    end : float
        T > 0, the last time.

    Raises
    ------
    InputError
        A parameter is out of its range, or the friction lets u creep to zero without oscillation.
    """
    check_positive("oscillator", mass=mass, stiffness=stiffness, end=end)
    check_not_negative("oscillator", friction=friction)
    decay = friction / (2 * mass)
    if decay**2 >= stiffness / mass:
        raise InputError(
            f"oscillator: friction must be below 2 √(mass · stiffness) = "
            f"{2 * np.sqrt(mass * stiffness):.6g}, got {friction!r}"
        )
    frequency = np.sqrt(stiffness / mass - decay**2)

    def solution(t: Any) -> Any:
        return exp(-decay * t) * (cos(frequency * t) + decay / frequency * sin(frequency * t))

    def equation(u: Any, t: Any) -> Any:
        forces = mass * derivative(u, t, 0, 0) + friction * derivative(u, t, 0)
        return forces / stiffness + u(t)

    return Problem(
        Time(0, end),
        equation,
        conditions=[Initial(1.0, velocity=0.0)],
        exact=solution,
        name="oscillator",
    )


_PREY_AND_HUNTERS = (1.0, 0.5)


def lotka_volterra(
    *,
    growth: float = 1.5,
    hunting: float = 1.0,
    death: float = 1.0,
    births: float = 1.0,
    end: float = 10.0,
    fading: float = 0.8,
) -> Problem:
    """r′ = α r − β r p, p′ = δ r p − γ p on [0, end], from r = 1, p = ½.

    The initial values are built in: w = w₀ + (1 − e^{−t}) N(t). The residual is multiplied by
    e^{−κt}. Without it, networks tend to leave the trajectory for the point of rest, which also
    solves the equations; with κ = ½ some still do. The reference is
    `references.spectral.trajectory` (Lotka 1925; Volterra 1926).

    Parameters
    ----------
    growth, hunting, death, births : float
        α, β, γ and δ, per time.
    end : float
        The last time.
    fading : float
        κ, per time.
    """

    def velocity(r: Any, p: Any) -> tuple[Any, Any]:
        return growth * r - hunting * r * p, births * r * p - death * p

    def equation(w: Any, t: Any) -> Any:
        right = tf.concat(velocity(*tf.split(w(t), 2, axis=1)), axis=1)
        return tf.exp(-fading * t) * (derivative(w, t, 0) - right)

    return Problem(
        Interval(0, end, name="t"),
        equation,
        ansatz=lambda network, t: (
            tf.constant([_PREY_AND_HUNTERS], t.dtype) - tf.math.expm1(-t) * network(t)
        ),
        outputs=("r", "p"),
        exact=trajectory(lambda w: np.array(velocity(*w)), _PREY_AND_HUNTERS, end),
        name="Lotka–Volterra",
    )


LORENZ_START = (-8.0, 7.0, 27.0)


def lorenz(
    *,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8 / 3,
    end: float = 1.0,
    fading: float = 4.0,
) -> Problem:
    """x′ = σ (y − x), y′ = x (ρ − z) − y, z′ = x y − β z on [0, end], from (−8, 7, 27).

    The initial values are built in: w = w₀ + 10 t N(t). The residual is multiplied by e^{−κt},
    since an early error grows later. The reference is `references.spectral.trajectory`
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
        right = tf.concat(lorenz_velocity(*tf.split(w(t), 3, axis=1), **coefficients), axis=1)
        return tf.exp(-fading * t) * (derivative(w, t, 0) - right) / 10

    return Problem(
        Interval(0, end, name="t"),
        equation,
        ansatz=lambda network, t: tf.constant([LORENZ_START], t.dtype) + 10 * t * network(t),
        outputs=("x", "y", "z"),
        exact=trajectory(
            lambda w: np.array(lorenz_velocity(*w, **coefficients)), LORENZ_START, end
        ),
        name="Lorenz",
    )


def lorenz_velocity(
    x: Any, y: Any, z: Any, *, sigma: Any, rho: Any, beta: Any
) -> tuple[Any, Any, Any]:
    """Return the right sides of the three equations, of arrays or tensors of any shape (local)."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


ENTRIES = (
    CatalogueEntry(
        "oscillator",
        "u″ + 4 u′ + 80² u = 0 on [0, 1], u = 1 and u′ = 0 at first: 12.7 periods, damped",
        oscillator,
        in_windows(3_200, boundary=2, parts=(40,), features=20, scale=6.0),
    ),
    CatalogueEntry(
        "lotka-volterra",
        "r′ = 1.5 r − r p, p′ = r p − p on [0, 10], from r = 1, p = ½: prey and hunters",
        lotka_volterra,
        Suggestion(400, width=24, depth=2, steps=200),
    ),
    CatalogueEntry(
        "lorenz",
        "x′ = 10 (y − x), y′ = x (28 − z) − y, z′ = x y − 8z/3 on [0, 1], from (−8, 7, 27)",
        lorenz,
        Suggestion(200, width=32, depth=2, steps=150),
    ),
)
