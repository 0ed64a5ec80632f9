"""The Allen–Cahn equation: two phases with sharp fronts between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.references.allen_cahn import solution
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import derivative
from sciml_par.problems.problem import Problem

DIFFUSIVITY, GROWTH = 1e-4, 5.0


def allen_cahn() -> Problem:
    """u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic in x, u = x² cos πx at t = 0.

    The initial values are built in. Their periodic continuation has a kink at x = ±1, which the
    diffusion D = 10⁻⁴ rounds off for t > 0, and so does what is built in:

        u = x² cos πx + 4 w(1 − |x|, t) + t N,
        w(y, t) = √(Dt/π) exp(−y²/4Dt) − (y/2) erfc(y/√(4Dt)),

    where w_t = D w_yy, w = 0 at t = 0 and w_y = −1/2 at y = 0. The equation is that of Raissi,
    Perdikaris and Karniadakis (2019, J. Comput. Phys. 378, 686–707); the reference is
    `references.allen_cahn`.
    """
    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        _equation,
        conditions=[Periodic("x", order=0)],
        ansatz=lambda network, x: _start(x) + x[:, 1:] * network(x),
        exact=_reference,
        name="Allen–Cahn",
    )


def _start(x: Any) -> Any:
    """x² cos πx + 4 w(1 − |x|, t)."""
    place = x[:, :1]
    # At t = 0, where w is 0, the quotient is to be large, and not a division by zero.
    scale = tf.maximum(tf.sqrt(4 * DIFFUSIVITY * x[:, 1:]), 1e-18)
    near = (1 - tf.abs(place)) / scale
    rounded = tf.exp(-(near**2)) / np.sqrt(np.pi) - near * tf.math.erfc(near)
    return place**2 * tf.cos(np.pi * place) + 2 * scale * rounded


def _equation(u: Any, x: Any) -> Any:
    reaction = GROWTH * (u(x) - u(x) ** 3)
    return derivative(u, x, 1) - DIFFUSIVITY * derivative(u, x, 0, 0) - reaction


def _reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return solution(DIFFUSIVITY, GROWTH)(x)


ENTRY = CatalogueEntry(
    "allen-cahn",
    "u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic, u = x² cos πx at first",
    allen_cahn,
    Suggestion(4000, boundary=100, method="sobol", width=20, depth=3, steps=150, periodic=("x",)),
    goal=1e-2,
)
