"""Steady flows: Navier–Stokes in the plane and Stokes in a pipe."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_number, check_positive
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, exp, row_sum, sin
from sciml_par.problems.catalogue.references.cavity import solution as cavity_reference
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.extruded import Extruded
from sciml_par.problems.operators.operators import jacobian, laplacian
from sciml_par.problems.problem import Problem


def kovasznay(*, reynolds: float = 20.0) -> Problem:
    """u·∇u + ∇p = Δu/Re, ∇·u = 0 on [−0.5, 1] × [−0.5, 1.5]; outputs u, v and p.

        u = 1 − e^{λx} cos 2πy,  v = λ/2π e^{λx} sin 2πy,  p = ½ (1 − e^{2λx}),
        λ = Re/2 − √(Re²/4 + 4π²)

    The velocity is given on the whole boundary, and the pressure at x = 1 (Kovasznay 1948, Proc.
    Camb. Phil. Soc. 44, 58–62).

    Parameters
    ----------
    reynolds : float
        Re, dimensionless.
    """
    decay = reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * np.pi**2)

    def solution(x: Any) -> Any:
        fading, angle = exp(decay * x[:, :1]), 2 * np.pi * x[:, 1:]
        u = 1 - fading * cos(angle)
        v = decay / (2 * np.pi) * fading * sin(angle)
        return columns(u, v, (1 - fading**2) / 2)

    def equation(w: Any, x: Any) -> Any:
        return navier_stokes(w, x, reynolds)

    return Problem(
        Box([-0.5, -0.5], [1, 1.5]),
        equation,
        conditions=[
            Dirichlet(lambda x: solution(x)[:, :2], component=("u", "v")),
            Dirichlet(lambda x: solution(x)[:, 2:], component="p", on="x=upper"),
        ],
        outputs=("u", "v", "p"),
        exact=solution,
        name="Kovasznay",
    )


def navier_stokes(w: Any, x: Any, reynolds: float) -> Any:
    """u·∇u + ∇p − Δu/Re in two components, and ∇·u, of w = (u, v, p): [n, 3] (local)."""
    slopes, diffusion = jacobian(w, x), laplacian(w, x)[:, :2] / reynolds
    advection = tf.reduce_sum(slopes[:, :2] * w(x)[:, None, :2], axis=2)
    divergence = slopes[:, 0, :1] + slopes[:, 1, 1:]
    return tf.concat([advection + slopes[:, 2] - diffusion, divergence], axis=1)


DEFAULT_REYNOLDS = 100.0


def cavity(*, reynolds: float = DEFAULT_REYNOLDS) -> Problem:
    """u·∇u + ∇p = Δu/Re, ∇·u = 0 in the unit square, the lid y = 1 moving; outputs u, v and p.

    The lid has the regularized velocity u = 16 x² (1 − x)². With u = 1, velocity and pressure would
    have no limits in its corners (Shen 1991, J. Comput. Phys. 95, 228–245). All conditions are
    built in, as is p = 0 at (½, 0):

        u = 16 x² (1 − x)² y² + b N₁,  v = b N₂,  p = (x − ½) N₃ + y N₄,  b = 16 x (1 − x) y (1 − y)

    The reference is `references.cavity`.

    Parameters
    ----------
    reynolds : float
        Re, dimensionless; up to some hundreds.
    """

    def equation(w: Any, x: Any) -> Any:
        return navier_stokes(w, x, reynolds)

    def reference(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return cavity_reference(reynolds)(x)

    return Problem(
        Box([0, 0], [1, 1]),
        equation,
        ansatz=_between_the_walls,
        network_outputs=4,
        outputs=("u", "v", "p"),
        exact=reference,
        name=f"cavity, Re = {reynolds:g}",
    )


def _between_the_walls(network: Any, x: Any) -> Any:
    across, up, values = x[:, :1], x[:, 1:], network(x)
    inside = 16 * across * (1 - across) * up * (1 - up)
    lid = 16 * (across * (1 - across) * up) ** 2
    pressure = (across - 0.5) * values[:, 2:3] + up * values[:, 3:]
    return tf.concat([lid + inside * values[:, :1], inside * values[:, 1:2], pressure], axis=1)


def pipe(
    *, radius: float = 1.0, length: float = 2.0, viscosity: float = 1.0, drop: float = 8.0
) -> Problem:
    """∇p = μ Δu, ∇·u = 0 in a round pipe along z; outputs u, v, w and p (Stokes).

        u = v = 0,  w = Δp (R² − x² − y²)/(4μL),  p = Δp (1 − z/L)

    is the flow of Hagen and Poiseuille. Given are u = 0 at the wall, and at both ends the pressure
    and u = v = 0: the flow is driven by the pressure.

    Parameters
    ----------
    radius, length : float
        R and L, lengths, positive.
    viscosity : float
        μ, positive.
    drop : float
        Δp, the pressure at z = 0 above that at z = L; other than 0.

    Raises
    ------
    InputError
        A length or the viscosity is not positive, or the drop is 0.
    """
    check_positive("pipe", radius=radius, length=length, viscosity=viscosity)
    check_number("pipe", "drop", drop, "other than 0", lambda p: p != 0)

    def solution(x: Any) -> Any:
        along = drop / (4 * viscosity * length) * (radius**2 - row_sum(x[:, :2] ** 2))
        return columns(0 * along, 0 * along, along, drop * (1 - x[:, 2:] / length))

    def equation(w: Any, x: Any) -> Any:
        slopes, diffusion = jacobian(w, x), viscosity * laplacian(w, x)[:, :3]
        return tf.concat(
            [slopes[:, 3] - diffusion, tf.linalg.trace(slopes[:, :3])[:, None]], axis=1
        )

    ends = ("z=lower", "z=upper")
    return Problem(
        Extruded(Ball([0, 0], radius), 0, length),
        equation,
        conditions=[
            Dirichlet(0.0, component=("u", "v", "w"), on="surface", name="wall"),
            Dirichlet(0.0, component=("u", "v"), on=ends, name="across"),
            Dirichlet(lambda x: solution(x)[:, 3:], component="p", on=ends, name="pressure"),
        ],
        outputs=("u", "v", "w", "p"),
        exact=solution,
        name="Stokes in a pipe",
    )


ENTRIES = (
    CatalogueEntry(
        "kovasznay",
        "Navier–Stokes, steady, Re = 20, behind a grid; velocity given on the boundary",
        kovasznay,
        Suggestion(1200, boundary=300, method="sobol", width=24, depth=2, steps=150),
        goal=1e-2,
    ),
    CatalogueEntry(
        "cavity",
        "Navier–Stokes, steady, Re = 100, in the unit square under a moving lid",
        cavity,
        Suggestion((36, 36), width=20, depth=3, steps=200),
        goal=1e-2,
    ),
    CatalogueEntry(
        "pipe",
        "∇p = μ Δu, ∇·u = 0 in a round pipe, driven by the pressure at both ends: Poiseuille",
        pipe,
        Suggestion(600, boundary=600, method="sobol", width=30, depth=1, steps=150),
    ),
)
