"""The price of a European call option, by Black and Scholes."""

from __future__ import annotations

from typing import Any

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import exp, log, normal_distribution
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

LOWEST, HIGHEST = 0.2, 2.0


def black_scholes(*, rate: float = 0.05, volatility: float = 0.4, left: float = 0.1) -> Problem:
    """V_t + ½ σ² S² V_SS + r S V_S − r V = 0 for a share price S in [0.2, 2], t in [0, 1 − left].

        V = S Φ(d₁) − e^{−rτ} Φ(d₂),   τ = 1 − t,   d₁,₂ = [log S + (r ± σ²/2) τ] / (σ√τ)

    is the price of a call option with the strike 1 that expires at t = 1. It is given for the
    lowest and the highest S, and at the last t: not at expiry, where it has a kink, but where a
    time `left` is left until then (Black and Scholes 1973, J. Political Economy 81, 637–654).

    Parameters
    ----------
    rate : float
        r, the interest per time.
    volatility : float
        σ, per square root of time.
    left : float
        Between 0 and 1, in units of the time to expiry.
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


ENTRY = CatalogueEntry(
    "black-scholes",
    "V_t + ½ σ² S² V_SS + r S V_S − r V = 0, V given near expiry: a call option",
    black_scholes,
    Suggestion((32, 24), boundary=160, width=16, depth=2, steps=150),
)
