"""Problems of accuracy.py as the catalogue does not pose them: periodic, or with an unknown.

The networks for the first three are periodic by an embedding, and the initial values are in the
ansatz, so that the equation is the whole loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from _examples import problem_named

from sciml_par._tensorflow import tf
from sciml_par.problems import Box, Observations, Problem, Residual, Unknown, derivative, laplacian

FloatArray = npt.NDArray[np.float64]

DIFFUSIVITY, GROWTH = 1e-4, 5.0
DISPERSION = 0.022**2
SOUGHT, START = 0.1, 1.0
OBSERVATIONS = 20

LAYERS = {-1.0: 0.02, -0.5: 0.03, 0.0: 0.05, 0.5: 0.03, 1.0: 0.02}
"""Where the solution of the Allen–Cahn equation becomes steep or bends, and on which length."""


def periodic_helmholtz() -> Problem:
    """Return Δu + u = f on [−1, 1]², periodic; u = sin πx sin 4πy."""

    def solution(x: FloatArray) -> FloatArray:
        return np.asarray(np.sin(np.pi * x[:, :1]) * np.sin(4 * np.pi * x[:, 1:]))

    def equation(u: Any, x: Any, f: Any) -> Any:
        return laplacian(u, x) + u(x) - f

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(equation, data=lambda x: (1 - 17 * np.pi**2) * solution(x)),
        exact=solution,
        name="Helmholtz, periodic",
    )


def periodic_allen_cahn() -> Problem:
    """u_t = D u_xx + 5 (u − u³) on [−1, 1] × [0, 1], D = 10⁻⁴, periodic; u = x² cos πx at first.

    The periodic continuation of x² cos πx has a kink at x = ±1, which the diffusion rounds off:

        u = x² cos πx + 4 w(1 − |x|, t) + t N,
        w(y, t) = √(Dt/π) exp(−y²/4Dt) − (y/2) erfc(y/√(4Dt)),

    where w solves the equation of diffusion with w = 0 at t = 0 and w_y = −1/2 at y = 0, so that
    what N is added to is smooth and periodic for t > 0.
    """

    def start(x: Any) -> Any:
        place, scale = x[:, :1], tf.sqrt(4 * DIFFUSIVITY * x[:, 1:])
        # At t = 0, where w is 0, the quotient is to be large, and not a division by zero.
        scale = tf.maximum(scale, 1e-150)
        near = (1 - tf.abs(place)) / scale
        rounded = tf.exp(-(near**2)) / np.sqrt(np.pi) - near * tf.math.erfc(near)
        return place**2 * tf.cos(np.pi * place) + 2 * scale * rounded

    def equation(u: Any, x: Any) -> Any:
        reaction = GROWTH * (u(x) - u(x) ** 3)
        return derivative(u, x, "t") - DIFFUSIVITY * derivative(u, x, "x", "x") - reaction

    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        equation,
        ansatz=lambda network, x: start(x) + x[:, 1:] * network(x),
        exact=problem_named("allen-cahn").exact,
        name="Allen–Cahn, periodic",
    )


def points_near_the_layers(count: int, *, share: float = 0.6) -> FloatArray:
    """Return points [n, 2] of [−1, 1] × [0, 1], a share of them dense near the `LAYERS` c_k.

    Sobol' points of the unit square, of which the first coordinate is mapped by the inverse of

        F(x) = (1 − share) (x + 1)/2 + (share/K) Σ_k (a_k(x) − a_k(−1)) / (a_k(1) − a_k(−1)),

    a_k(x) = atan((x − c_k)/s_k).

    Parameters
    ----------
    count : n.
    share : dimensionless.
    """
    unit = Box([0, 0], [1, 1]).sample(count, seed=0, method="sobol")
    x = np.linspace(-1, 1, 200_001)
    share_below = (1 - share) * (x + 1) / 2
    for centre, scale in LAYERS.items():
        angle = np.arctan((x - centre) / scale)
        share_below += share / len(LAYERS) * (angle - angle[0]) / (angle[-1] - angle[0])
    return np.stack([np.interp(unit[:, 0], share_below, x), unit[:, 1]], axis=1)


def periodic_korteweg_de_vries() -> Problem:
    """u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic; u = cos πx at first."""

    def equation(u: Any, x: Any) -> Any:
        steepening = u(x) * derivative(u, x, "x")
        return derivative(u, x, "t") + steepening + DISPERSION * derivative(u, x, "x", "x", "x")

    return Problem(
        Box([-1, 0], [1, 1], names=("x", "t")),
        equation,
        ansatz=lambda network, x: tf.cos(np.pi * x[:, :1]) + x[:, 1:] * network(x),
        exact=problem_named("kdv").exact,
        name="Korteweg–de Vries, periodic",
    )


def inverse_diffusion() -> Problem:
    """u_t = D u_xx on [0, 1]², u = 0 at both ends, u = sin πx at first; D from 20 values of u.

    D = 0.1, sought from 1; u = exp(−Dπ²t) sin πx, of which the values are exact.
    """

    def solution(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-SOUGHT * np.pi**2 * x[:, 1:]) * np.sin(np.pi * x[:, :1]))

    def equation(u: Any, x: Any, *, D: Any) -> Any:
        return derivative(u, x, "t") - D * derivative(u, x, "x", "x")

    def from_the_start(network: Any, x: Any) -> Any:
        place, time = x[:, :1], x[:, 1:]
        return tf.sin(np.pi * place) + time * place * (1 - place) * network(x)

    domain = Box([0, 0], [1, 1], names=("x", "t"))
    measured = domain.sample(OBSERVATIONS, seed=1, method="sobol")
    return Problem(
        domain,
        equation,
        conditions=[Observations(measured, solution(measured))],
        ansatz=from_the_start,
        unknowns={"D": Unknown(START, lower=0.0, true=SOUGHT)},
        exact=solution,
        name="inverse diffusion",
    )
