"""Burgers' equation, whose solution steepens into a front."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

FloatArray = npt.NDArray[np.float64]
VISCOSITY = 0.01 / np.pi


def burgers(*, viscosity: float = VISCOSITY, built_in: bool = True) -> Problem:
    """u_t + u u_x = ν u_xx on [−1, 1] × [0, 1], u = −sin πx at t = 0, u = 0 at both ends.

    The exact solution is `cole_hopf`.

    Parameters
    ----------
    viscosity : float
        ν, length² per time.
    built_in : bool
        Whether u = −sin πx + t (1 − x²) N, which has the initial and boundary values, rather than
        that these are terms of the loss.
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
        ansatz=_from_the_start if built_in else None,
        exact=lambda x: cole_hopf(x, viscosity=viscosity),
        name="Burgers",
    )


def _from_the_start(network: Any, x: Any) -> Any:
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
    """Points in space and time of which a share is dense near x = 0, where a front forms: [n, 2].

    Sobol' points of the unit square, of which the first coordinate is mapped by the inverse of

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


ENTRY = CatalogueEntry(
    "burgers",
    "u_t + u u_x = (0.01/π) u_xx on [−1, 1] × [0, 1], u = −sin πx at first, u = 0 at both ends",
    burgers,
    Suggestion(2500, width=20, depth=3, steps=300),
    goal=1e-2,
    place=points_near_the_front,
)
