"""The Helmholtz equation: sources, and plane waves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sciml_par._checks import check_positive, checked_number
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, in_windows
from sciml_par.problems.catalogue.functions import cos, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def _helmholtz(u: Any, x: Any, k: float) -> Any:
    """Δu + k² u."""
    return laplacian(u, x) + k**2 * u(x)


def helmholtz(
    *, k: float = 1.0, waves: tuple[int, int] = (1, 4), periodic: bool = False
) -> Problem:
    """Δu + k² u = f in [−1, 1]², u = 0 on the boundary; u = sin aπx sin bπy.

    Wang, Teng and Perdikaris (2021), SIAM J. Sci. Comput. 43, A3055, eq. (36).

    Parameters
    ----------
    k : float
        Wave number, per length.
    waves : two ints
        a and b; u vanishes on the boundary for integers.
    periodic : bool
        Whether the conditions are periodicity in x and y, instead of u = 0 on the boundary. The
        solution satisfies both.
    """
    factors = np.pi * np.array(waves, np.float64)

    def solution(x: Any) -> Any:
        return sin(factors[0] * x[:, :1]) * sin(factors[1] * x[:, 1:])

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(
            lambda u, x, f: _helmholtz(u, x, k) - f,
            data=lambda x: (k**2 - np.sum(factors**2)) * solution(x),
        ),
        conditions=[Periodic("x"), Periodic("y")] if periodic else [Dirichlet(0.0)],
        exact=solution,
        name="Helmholtz, periodic" if periodic else "Helmholtz",
    )


def plane_waves(*, k: float = 50.0, angles: Sequence[float] = (0.5, 2.0)) -> Problem:
    """Δu + k² u = 0 in the unit square, u given on its boundary; a sum of plane waves.

        u = Σ_j cos k(x cos α_j + y sin α_j)

    The equation is divided by k². It determines u unless k² is one of the eigenvalues
    (m² + n²) π², m and n from 1 on, and errors grow near them. k² = 50² is 253.3 π², between the
    eigenvalues 250 π² and 257 π².

    Parameters
    ----------
    k : float
        Wave number, positive, per length.
    angles : sequence of floats
        α_j, the directions of the waves.

    Raises
    ------
    InputError
        k is not positive, or there is no angle, or one that is not finite.
    """
    check_positive("plane_waves", k=k)
    if not angles:
        raise InputError("plane_waves: angles must be at least one number, got none")
    directions = [checked_number(angle, "plane_waves: an angle") for angle in angles]

    def solution(x: Any) -> Any:
        return sum(cos(k * (np.cos(a) * x[:, :1] + np.sin(a) * x[:, 1:])) for a in directions)

    return Problem(
        Box([0, 0], [1, 1]),
        lambda u, x: _helmholtz(u, x, k) / k**2,
        conditions=[Dirichlet(solution)],
        exact=solution,
        name=f"plane waves, k = {k:g}",
    )


ENTRIES = (
    CatalogueEntry(
        "helmholtz",
        "Δu + u = f in [−1, 1]², u = 0 on the boundary; u = sin πx sin 4πy",
        helmholtz,
        Suggestion((48, 48), boundary=240, width=20, depth=3, steps=300),
    ),
    CatalogueEntry(
        "helmholtz-periodic",
        "Δu + u = f in [−1, 1]², periodic in x and y; u = sin πx sin 4πy",
        partial(helmholtz, periodic=True),
        Suggestion((30, 48), boundary=80, width=20, depth=2, steps=100, periodic=("x", "y")),
    ),
    CatalogueEntry(
        "helmholtz-waves",
        "Δu + 50² u = 0 in the unit square, u given on its boundary: two plane waves",
        plane_waves,
        in_windows(30_000, boundary=700, parts=(8, 8), features=150, scale=10.0),
    ),
)
