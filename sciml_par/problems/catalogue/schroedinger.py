"""The nonlinear Schrödinger equation, real and imaginary part as two outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, cosh, sin
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

HALF_WIDTH = 5.0


def schroedinger() -> Problem:
    """i h_t + ½ h_xx + |h|² h = 0, h = 2 sech x at t = 0, for x in [−5, 5] and t in [0, π/2].

    With h = u + iv, the two outputs. Two solitons that pulsate together (Satsuma and Yajima 1974,
    Prog. Theor. Phys. Suppl. 55, 284–306):

        h = 4 e^{it/2} (cosh 3x + 3 e^{4it} cosh x) / (cosh 4x + 4 cosh 2x + 3 cos 4t)

    The initial values are built in, h = 2 sech x + t N. Those at both ends are of this solution on
    the whole line. Raissi, Perdikaris and Karniadakis (2019, J. Comput. Phys. 378, 686–707) take
    periodic conditions in their place.
    """
    return Problem(
        Box([-HALF_WIDTH, 0], [HALF_WIDTH, np.pi / 2], names=("x", "t")),
        _equation,
        conditions=[
            Dirichlet(_solution, on=("x=lower", "x=upper")),
        ],
        ansatz=_from_the_start,
        outputs=("u", "v"),
        exact=_solution,
        name="Schrödinger",
    )


def _equation(h: Any, x: Any) -> Any:
    """Real and imaginary part: [n, 2]."""
    u, v = h(x)[:, :1], h(x)[:, 1:]
    in_time, curvature = derivative(h, x, 1), derivative(h, x, 0, 0)
    turned = tf.concat([-in_time[:, 1:], in_time[:, :1]], axis=1)
    return turned + curvature / 2 + (u**2 + v**2) * h(x)


def _from_the_start(network: Any, x: Any) -> Any:
    place, time = x[:, :1], x[:, 1:]
    return columns(2 / cosh(place), tf.zeros_like(place)) + time * network(x)


def _solution(x: Any) -> Any:
    place, time = x[:, :1], x[:, 1:]
    scale = 4 / (cosh(4 * place) + 4 * cosh(2 * place) + 3 * cos(4 * time))
    one, three = cosh(3 * place), 3 * cosh(place)
    u = one * cos(time / 2) + three * cos(4.5 * time)
    v = one * sin(time / 2) + three * sin(4.5 * time)
    return columns(scale * u, scale * v)


ENTRY = CatalogueEntry(
    "schroedinger",
    "i h_t + ½ h_xx + |h|² h = 0 on [−5, 5] × [0, π/2], h = 2 sech x at first",
    schroedinger,
    Suggestion(2400, boundary=300, method="sobol", width=20, depth=3, steps=150),
    goal=1e-2,
)
