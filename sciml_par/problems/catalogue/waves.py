"""Advection, waves, fronts and solitons in time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_positive
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, in_windows
from sciml_par.problems.catalogue.functions import columns, cos, cosh, sin
from sciml_par.problems.catalogue.references import evolution
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

FloatArray = npt.NDArray[np.float64]


def wave(*, speed: float = 1.0, end: float = 2.0) -> Problem:
    """u_tt = c² u_xx on [0, 1] × [0, T], u = 0 at both ends, u and u_t = 0 given at t = 0.

        u = sin πx cos cπt + ½ sin 3πx cos 3cπt

    Parameters
    ----------
    speed : float
        c, length per time.
    end : float
        T > 0, a time; the period is 2/c.

    Raises
    ------
    InputError
        The end is not a positive number.
    """
    check_positive("wave", end=end)

    def solution(x: Any) -> Any:
        place, time = np.pi * x[:, :1], speed * np.pi * x[:, 1:]
        return sin(place) * cos(time) + 0.5 * sin(3 * place) * cos(3 * time)

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 1, 1) - speed**2 * derivative(u, x, 0, 0)

    return Problem(
        Box([0, 0], [1, end], names=("x", "t")),
        equation,
        conditions=[
            Dirichlet(0.0, on=("x=lower", "x=upper")),
            Initial(solution, velocity=0.0),
        ],
        exact=solution,
        name="wave",
    )


def advection(*, speed: float = 2.0) -> Problem:
    """u_t + c u_x = 0 on [0, 1] × [0, 1], periodic in x, u = sin 2πx at t = 0.

        u = sin 2π(x − ct)

    Parameters
    ----------
    speed : float
        c > 0, length per time.
    """

    def solution(x: Any) -> Any:
        return sin(2 * np.pi * (x[:, :1] - speed * x[:, 1:]))

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, 1) + speed * derivative(u, x, 0)

    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[
            Initial(solution),
            Periodic("x", order=0),
        ],
        exact=solution,
        name="advection",
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


ADVECTION, DISPERSION = 1.0, 0.022**2


def korteweg_de_vries() -> Problem:
    """u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic in x, u = cos πx at t = 0.

    The initial values are built in, u = cos πx + t N. Zabusky and Kruskal (1965, Phys. Rev. Lett.
    15, 240–243) found solitons in it. The reference is `references.evolution.korteweg_de_vries`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _korteweg_de_vries,
        conditions=[Periodic("x", order=(0, 1, 2))],
        ansatz=lambda network, x: tf.cos(np.pi * x[:, :1]) + x[:, 1:] * network(x),
        exact=_kdv_reference,
        name="Korteweg–de Vries",
    )


def _korteweg_de_vries(u: Any, x: Any) -> Any:
    steepening = ADVECTION * u(x) * derivative(u, x, 0)
    return derivative(u, x, 1) + steepening + DISPERSION * derivative(u, x, 0, 0, 0)


def _kdv_reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return evolution.korteweg_de_vries(ADVECTION, DISPERSION)(x)


HALF_WIDTH = 5.0


def schroedinger() -> Problem:
    """i h_t + ½ h_xx + |h|² h = 0, h = 2 sech x at t = 0, for x in [−5, 5] and t in [0, π/2].

    With h = u + iv, the two outputs. Two solitons that pulsate together (Satsuma and Yajima 1974,
    Prog. Theor. Phys. Suppl. 55, 284–306):

        h = 4 e^{it/2} (cosh 3x + 3 e^{4it} cosh x) / (cosh 4x + 4 cosh 2x + 3 cos 4t)

    The initial values are built in, h = 2 sech x + t N. The values at both ends are those of this
    solution on the whole line. Raissi, Perdikaris and Karniadakis (2019, J. Comput. Phys. 378,
    686–707) use periodic conditions instead.
    """
    return Problem(
        Box([-HALF_WIDTH, 0], [HALF_WIDTH, np.pi / 2], names=("x", "t")),
        _schroedinger,
        conditions=[
            Dirichlet(solitons, on=("x=lower", "x=upper")),
        ],
        ansatz=_schroedinger_ansatz,
        outputs=("u", "v"),
        exact=solitons,
        name="Schrödinger",
    )


def _schroedinger(h: Any, x: Any) -> Any:
    """Compute the real and the imaginary part: [n, 2]."""
    u, v = h(x)[:, :1], h(x)[:, 1:]
    in_time, curvature = derivative(h, x, 1), derivative(h, x, 0, 0)
    turned = tf.concat([-in_time[:, 1:], in_time[:, :1]], axis=1)
    return turned + curvature / 2 + (u**2 + v**2) * h(x)


def _schroedinger_ansatz(network: Any, x: Any) -> Any:
    place, time = x[:, :1], x[:, 1:]
    return columns(2 / cosh(place), tf.zeros_like(place)) + time * network(x)


def solitons(x: Any) -> Any:
    """Return the real and the imaginary part of h, (x, t): [n, 2] -> [n, 2]."""
    place, time = x[:, :1], x[:, 1:]
    scale = 4 / (cosh(4 * place) + 4 * cosh(2 * place) + 3 * cos(4 * time))
    one, three = cosh(3 * place), 3 * cosh(place)
    u = one * cos(time / 2) + three * cos(4.5 * time)
    v = one * sin(time / 2) + three * sin(4.5 * time)
    return columns(scale * u, scale * v)


ENTRIES = (
    CatalogueEntry(
        "wave",
        "u_tt = u_xx on [0, 1] × [0, 2], u = 0 at both ends, at rest at first",
        wave,
        Suggestion((26, 52), boundary=240, width=20, depth=2, steps=150),
    ),
    CatalogueEntry(
        "wave-long",
        "u_tt = u_xx on [0, 1] × [0, 40], u = 0 at both ends, at rest at first: 20 periods",
        partial(wave, end=40.0),
        in_windows(50_000, boundary=10_000, parts=(2, 80), features=150, scale=8.0),
    ),
    CatalogueEntry(
        "advection",
        "u_t + 2 u_x = 0 on [0, 1] × [0, 1], periodic in x, u = sin 2πx at first",
        advection,
        Suggestion((30, 40), boundary=200, width=40, depth=1, steps=200),
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
        "kdv",
        "u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic, u = cos πx at first",
        korteweg_de_vries,
        Suggestion(
            5000, boundary=100, method="sobol", width=20, depth=3, steps=250, periodic=("x",)
        ),
        goal=1e-2,
    ),
    CatalogueEntry(
        "schroedinger",
        "i h_t + ½ h_xx + |h|² h = 0 on [−5, 5] × [0, π/2], h = 2 sech x at first",
        schroedinger,
        Suggestion(2400, boundary=300, method="sobol", width=20, depth=3, steps=150),
        goal=1e-2,
    ),
)
