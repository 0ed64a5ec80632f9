"""Diffusion, a shock, prey and hunters, and an unknown coefficient: problems in time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, exp, sin
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import Unknown


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
        conditions=[Dirichlet(0.0, on=("x=lower", "x=upper")), Initial(solution)],
        exact=solution,
        name="heat",
    )


VISCOSITY = 0.01 / np.pi


def burgers(*, viscosity: float = VISCOSITY, built_in: bool = True) -> Problem:
    """u_t + u u_x = ν u_xx on [−1, 1] × [0, 1], u = −sin πx at t = 0, u = 0 at both ends.

    The exact solution is `cole_hopf`.

    Parameters
    ----------
    viscosity : float
        ν, length² per time.
    built_in : bool
        Whether to use u = −sin πx + t (1 − x²) N, which has the initial and boundary values,
        instead of terms of the loss.
    """

    def equation(u: Any, x: Any) -> Any:
        steepening = u(x) * derivative(u, x, 0)
        return derivative(u, x, 1) + steepening - viscosity * derivative(u, x, 0, 0)

    ends = Dirichlet(0.0, on=("x=lower", "x=upper"))
    start = Initial(lambda x: -tf.sin(np.pi * x[:, :1]))
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[] if built_in else [ends, start],
        ansatz=_burgers_ansatz if built_in else None,
        exact=lambda x: cole_hopf(x, viscosity=viscosity),
        name="Burgers",
    )


def _burgers_ansatz(network: Any, x: Any) -> Any:
    place, time = x[:, :1], x[:, 1:]
    return -tf.sin(np.pi * place) + time * (1 - place**2) * network(x)


def cole_hopf(x: FloatArray, *, viscosity: float = VISCOSITY, nodes: int = 200) -> FloatArray:
    """Return the solution of Burgers' equation by the transform of Cole and Hopf: [n, 2] -> [n, 1].

        u = −∫ sin(π(x−η)) f(x−η) exp(−η²/4νt) dη / ∫ f(x−η) exp(−η²/4νt) dη,

    f(y) = exp(−cos(πy)/(2πν)), both integrals by the Gauss–Hermite rule (Basdevant et al. 1986,
    Comput. Fluids 14, 23–41). For ν = 0.01/π it is the same to 2e-15 with 120 and with 200 nodes.
    """
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, :1] - np.sqrt(4 * viscosity * x[:, 1:]) * z
    exponents = -np.cos(np.pi * y) / (2 * np.pi * viscosity)
    # The largest exponent is about 50, and cancels.
    masses = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    mean = np.sum(np.sin(np.pi * y) * masses, axis=1) / np.sum(masses, axis=1)
    return np.asarray(-mean[:, None])


def points_near_the_front(count: int, *, share: float = 0.5, scale: float = 0.05) -> FloatArray:
    """Place points in space and time, a share of them near the front at x = 0: [n, 2].

    These are Sobol' points of the unit square, with the first coordinate mapped by the inverse of

        F(x) = (1 − c) (x + 1)/2 + c (atan(x/s) + T)/(2T),      T = atan(1/s).

    Parameters
    ----------
    count : n.
    share, scale : c and s, dimensionless.
    """
    unit = Box([0, 0], [1, 1]).sample(count, seed=0, method="sobol")
    x = np.sinh(np.linspace(-10, 10, 100_001)) / np.sinh(10)
    reach = np.arctan(1 / scale)
    share_below = (1 - share) * (x + 1) / 2 + share * (np.arctan(x / scale) + reach) / (2 * reach)
    return np.stack([np.interp(unit[:, 0], share_below, x), unit[:, 1]], axis=1)


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
    solves the equations; with κ = ½ some still do (Lotka 1925; Volterra 1926). The reference is by
    the method of Dormand and Prince of order 8 with an interpolant of order 7 (Hairer, Nørsett and
    Wanner 1993, section II.5), computed at the first call; its relative error is about 1e-10.

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

    @cache
    def trajectory() -> Any:
        from scipy.integrate import solve_ivp  # its import takes long

        accuracy = {"rtol": 1e-12, "atol": 1e-12, "max_step": end / 400, "dense_output": True}
        start, span = np.array(_PREY_AND_HUNTERS), (0.0, end)
        return solve_ivp(lambda t, w: velocity(*w), span, start, method="DOP853", **accuracy).sol

    return Problem(
        Interval(0, end, name="t"),
        equation,
        ansatz=lambda network, t: (
            tf.constant([_PREY_AND_HUNTERS], t.dtype) - tf.math.expm1(-t) * network(t)
        ),
        outputs=("r", "p"),
        exact=lambda t: trajectory()(t[:, 0]).T,
        name="Lotka–Volterra",
    )


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
    values = solution(places)
    deviation = np.full(values.shape, noise * np.sqrt(np.mean(values**2, axis=0)))
    errors = deviation * np.random.default_rng([seed, 1]).normal(size=values.shape)
    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            *([Initial(lambda x: sin(np.pi * x[:, :1]))] if initial else []),
            Observations(places, values + errors, noise=deviation if noise > 0 else None),
        ],
        unknowns={"D": Unknown(1.0, lower=0, true=diffusivity)},
        exact=solution,
        name="inverse diffusion",
    )


ENTRIES = (
    CatalogueEntry(
        "heat",
        "u_t = 0.1 u_xx on [0, 1] × [0, 1], u = 0 at both ends, sin πx + ½ sin 3πx at first",
        heat,
        Suggestion((30, 30), boundary=160, width=20, depth=2, steps=300),
    ),
    CatalogueEntry(
        "burgers",
        "u_t + u u_x = (0.01/π) u_xx on [−1, 1] × [0, 1], u = −sin πx at first, u = 0 at both ends",
        burgers,
        Suggestion(2500, width=20, depth=3, steps=300),
        goal=1e-2,
        place=points_near_the_front,
    ),
    CatalogueEntry(
        "lotka-volterra",
        "r′ = 1.5 r − r p, p′ = r p − p on [0, 10], from r = 1, p = ½: prey and hunters",
        lotka_volterra,
        Suggestion(400, width=24, depth=2, steps=200),
    ),
    CatalogueEntry(
        "inverse-diffusion",
        "u_t = D u_xx on [0, 1] × [0, 1], u = 0 at both ends, 20 observations of u: D is sought",
        inverse_diffusion,
        Suggestion(800, boundary=80, method="sobol", width=16, depth=2, steps=120),
    ),
)
