"""Diffusion in time, alone and with growth, reactions or a drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_positive
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, in_windows
from sciml_par.problems.catalogue.functions import cos, exp, log, normal_distribution, sin
from sciml_par.problems.catalogue.references import evolution
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.periodic import Periodic
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

    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        lambda u, x: _heat(u, x, diffusivity),
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            Initial(solution),
        ],
        exact=solution,
        name="heat",
    )


def _heat(u: Any, x: Any, diffusivity: float) -> Any:
    """u_t − κ u_xx."""
    return derivative(u, x, 1) - diffusivity * derivative(u, x, 0, 0)


def thermal_wave(*, diffusivity: float = 0.1, period: float = 5.0, end: float = 100.0) -> Problem:
    """u_t = κ u_xx on [0, 1] × [0, T], driven by u = cos ωt at x = 0, u given at x = 1 and t = 0.

        u = e^{−qx} cos(ωt − qx),     q = √(ω/2κ),     ω = 2π/P

    does not fade in time, such as the temperature of the ground below a surface with seasons
    (Carslaw and Jaeger 1959, Conduction of heat in solids, section 2.6).

    Parameters
    ----------
    diffusivity : float
        κ > 0, length² per time.
    period, end : float
        P and T, positive, times.

    Raises
    ------
    InputError
        A parameter is not a positive number.
    """
    check_positive("thermal_wave", diffusivity=diffusivity, period=period, end=end)
    frequency = 2 * np.pi / period
    decay = np.sqrt(frequency / (2 * diffusivity))

    def solution(x: Any) -> Any:
        depth = decay * x[:, :1]
        return exp(-depth) * cos(frequency * x[:, 1:] - depth)

    return Problem(
        Box([0, 0], [1, end], names=("x", "t")),
        lambda u, x: _heat(u, x, diffusivity),
        conditions=[
            Dirichlet(solution, on=("x=lower", "x=upper")),
            Initial(solution),
        ],
        exact=solution,
        name="thermal wave",
    )


LOWEST, HIGHEST = 0.2, 2.0


def black_scholes(*, rate: float = 0.05, volatility: float = 0.4, left: float = 0.1) -> Problem:
    """V_t + ½ σ² S² V_SS + r S V_S − r V = 0 for a share price S in [0.2, 2], t in [0, 1 − left].

        V = S Φ(d₁) − e^{−rτ} Φ(d₂),   τ = 1 − t,   d₁,₂ = [log S + (r ± σ²/2) τ] / (σ√τ)

    is the price of a call option with the strike 1 that expires at t = 1 (Black and Scholes 1973,
    J. Political Economy 81, 637–654). It is given for the lowest and the highest S, and at the last
    t, a time `left` before expiry, since it has a kink at expiry.

    Parameters
    ----------
    rate : float
        r, the interest per time.
    volatility : float
        σ, per square root of time.
    left : float
        Between 0 and 1, in units of the time to expiry at t = 0.
    """
    last = 1 - left

    def solution(x: Any) -> Any:
        price, time = x[:, :1], 1 - x[:, 1:]
        spread = volatility * time**0.5
        upper = (log(price) + (rate + volatility**2 / 2) * time) / spread
        certain = exp(-rate * time) * normal_distribution(upper - spread)
        return price * normal_distribution(upper) - certain

    def equation(value: Any, x: Any) -> Any:
        price = x[:, :1]
        diffusion = (volatility * price) ** 2 / 2 * derivative(value, x, 0, 0)
        growth = rate * (price * derivative(value, x, 0) - value(x))
        return derivative(value, x, 1) + diffusion + growth

    return Problem(
        Box([LOWEST, 0], [HIGHEST, last], names=("S", "t")),
        equation,
        conditions=[
            Dirichlet(solution, on=("S=lower", "S=upper")),
            Dirichlet(solution, on="t=upper"),
        ],
        outputs="V",
        exact=solution,
        name="Black–Scholes",
    )


DIFFUSIVITY, GROWTH = 1e-4, 5.0


def allen_cahn() -> Problem:
    """u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic in x, u = x² cos πx at t = 0.

    The initial values are built in. Their periodic continuation has a kink at x = ±1, which the
    diffusion D = 10⁻⁴ rounds off for t > 0. The ansatz contains this:

        u = x² cos πx + 4 w(1 − |x|, t) + t N,
        w(y, t) = √(Dt/π) exp(−y²/4Dt) − (y/2) erfc(y/√(4Dt)),

    where w_t = D w_yy, w = 0 at t = 0 and w_y = −1/2 at y = 0. The equation is that of Raissi,
    Perdikaris and Karniadakis (2019, J. Comput. Phys. 378, 686–707); the reference is
    `references.evolution.allen_cahn`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _allen_cahn,
        conditions=[Periodic("x", order=0)],
        ansatz=lambda network, x: _rounded_start(x) + x[:, 1:] * network(x),
        exact=_allen_cahn_reference,
        name="Allen–Cahn",
    )


def _rounded_start(x: Any) -> Any:
    """x² cos πx + 4 w(1 − |x|, t)."""
    place = x[:, :1]
    # At t = 0, where w is 0, the quotient must be large, without a division by zero.
    scale = tf.maximum(tf.sqrt(4 * DIFFUSIVITY * x[:, 1:]), 1e-18)
    near = (1 - tf.abs(place)) / scale
    rounded = tf.exp(-(near**2)) / np.sqrt(np.pi) - near * tf.math.erfc(near)
    return place**2 * tf.cos(np.pi * place) + 2 * scale * rounded


def _allen_cahn(u: Any, x: Any) -> Any:
    reaction = GROWTH * (u(x) - u(x) ** 3)
    return derivative(u, x, 1) - DIFFUSIVITY * derivative(u, x, 0, 0) - reaction


def _allen_cahn_reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return evolution.allen_cahn(DIFFUSIVITY, GROWTH)(x)


def reaction_diffusion(*, diffusivity: float = 0.005, growth: float = 3.0) -> Problem:
    """u_t = D u_xx + ρ u (1 − u) on [0, 1] × [0, 2], u given at t = 0 and at both ends.

    The solution

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


ENTRIES = (
    CatalogueEntry(
        "heat",
        "u_t = 0.1 u_xx on [0, 1] × [0, 1], u = 0 at both ends, sin πx + ½ sin 3πx at first",
        heat,
        Suggestion((30, 30), boundary=160, width=20, depth=2, steps=300),
    ),
    CatalogueEntry(
        "heat-long",
        "u_t = 0.1 u_xx on [0, 1] × [0, 100], u = cos 2πt/5 at x = 0: 20 periods of a thermal wave",
        thermal_wave,
        in_windows(20_000, boundary=8_000, parts=(1, 50), features=80, scale=6.0),
    ),
    CatalogueEntry(
        "black-scholes",
        "V_t + ½ σ² S² V_SS + r S V_S − r V = 0, V given near expiry: a call option",
        black_scholes,
        Suggestion((32, 24), boundary=160, width=16, depth=2, steps=150),
    ),
    CatalogueEntry(
        "allen-cahn",
        "u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic, u = x² cos πx at first",
        allen_cahn,
        Suggestion(
            4000, boundary=100, method="sobol", width=20, depth=3, steps=150, periodic=("x",)
        ),
        goal=1e-2,
    ),
    CatalogueEntry(
        "reaction-diffusion",
        "u_t = 0.005 u_xx + 3 u (1 − u) on [0, 1] × [0, 2]: a travelling front",
        reaction_diffusion,
        Suggestion((32, 40), boundary=240, width=20, depth=2, steps=200),
        goal=1e-2,
    ),
)
