"""Poisson's equation in several domains, and the Helmholtz equation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, row_product, row_sum, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def _poisson(u: Any, x: Any, f: Any) -> Any:
    """−Δu − f."""
    return -laplacian(u, x) - f


def poisson(*, k: int = 2, domain: Box | None = None) -> Problem:
    """−u″ = (kπ)² sin(kπx) on an interval, u = 0 at both ends; u = sin(kπx).

    The loss is mean |−u″ − f|² + u(lower)² + u(upper)². The Dirichlet weight is 2, since its term
    is a mean over both ends.

    Parameters
    ----------
    k : int
        Wave number, at least 1.
    domain : Interval, optional
        [−1, 1] by default. The solution must vanish at its ends: k·lower and k·upper are integers.

    Raises
    ------
    InputError
        k is not an integer of at least 1, or sin(kπx) does not vanish at the ends.

    Examples
    --------
    >>> from sciml_par.problems import poisson
    >>> poisson(k=2).exact([[0.25]])
    array([[1.]])
    """
    if not is_integer(k) or k < 1:
        raise InputError(
            f"poisson: k must be an integer of at least 1, got {k!r}; sin(kπx) meets u = 0 at the "
            f"ends of [-1, 1] for integers only"
        )
    interval = Interval(-1.0, 1.0) if domain is None else domain
    _check_ends(int(k), interval)
    wave = int(k) * np.pi

    return Problem(
        interval,
        Residual(_poisson, data=lambda x: wave**2 * sin(wave * x)),
        conditions=[Dirichlet(0.0, weight=2.0)],
        exact=lambda x: sin(wave * x),
        name=f"poisson, k = {k}",
    )


def _check_ends(k: int, domain: Box) -> None:
    if not isinstance(domain, Box) or domain.dimension != 1:
        raise InputError(f"poisson: domain must be an Interval, got {domain!r}")
    phases = k * np.array([domain.lower[0], domain.upper[0]])
    if not np.allclose(phases, np.round(phases), rtol=0.0, atol=1e-9):
        raise InputError(
            f"poisson: sin({k}πx) does not vanish at the ends of {domain}, where u = 0 is asked; "
            f"k times either end must be an integer"
        )


def poisson_square(*, built_in: bool = False) -> Problem:
    """−Δu = 2π² sin πx sin πy in the unit square, u = 0 on its boundary; u = sin πx sin πy.

    Parameters
    ----------
    built_in : bool
        Whether to use u = x (1 − x) y (1 − y) N, which is zero on the boundary, instead of a term
        of the loss.
    """
    return Problem(
        Box([0, 0], [1, 1]),
        Residual(_poisson, data=lambda x: 2 * np.pi**2 * _sines(x)),
        conditions=[] if built_in else [Dirichlet(0.0)],
        ansatz=_zero_on_the_boundary if built_in else None,
        exact=_sines,
        name="Poisson, 2-D",
    )


def _sines(x: Any) -> Any:
    return row_product(sin(np.pi * x))


def _zero_on_the_boundary(network: Any, x: Any) -> Any:
    return row_product(x * (1 - x)) * network(x)


def poisson_cube(*, dimension: int = 5) -> Problem:
    """−Δu = π² Σ cos πx_i in the unit cube, with the values of u = Σ cos πx_i on its boundary.

    Müller and Zeinhofer (2023), arXiv:2302.13163, section 4, solve it in five dimensions.

    Raises
    ------
    InputError
        The dimension is not an integer of at least 1.
    """
    d = checked_integer(dimension, "poisson_cube: dimension", least=1)
    return Problem(
        Box([0] * d, [1] * d),
        Residual(_poisson, data=lambda x: np.pi**2 * _cosines(x)),
        conditions=[Dirichlet(_cosines)],
        exact=_cosines,
        name=f"Poisson, {d}-D",
    )


def _cosines(x: Any) -> Any:
    return row_sum(cos(np.pi * x))


def poisson_hole(*, radius: float = 0.5) -> Problem:
    """−Δu = f in [−1, 1]² without the disc |x| < a, u = 0 on the square and on the circle.

        u = (x² + y² − a²) cos(πx/2) cos(πy/2)

    with f chosen so that it is the exact solution (a manufactured solution).

    Parameters
    ----------
    radius : float
        a, between 0 and 1.

    Raises
    ------
    InputError
        The radius is not between 0 and 1.
    """
    if not 0 < radius < 1:
        raise InputError(f"poisson_hole: the radius must be between 0 and 1, got {radius!r}")
    half = np.pi / 2

    def solution(x: Any) -> Any:
        return (row_sum(x**2) - radius**2) * row_product(cos(half * x))

    def source(x: Any) -> Any:
        """−Δ(g c) = −(c Δg + 2 ∇g·∇c + g Δc), with g = |x|² − a² and c = cos cos."""
        a, b = half * x[:, :1], half * x[:, 1:]
        slopes = -half * columns(sin(a) * cos(b), cos(a) * sin(b))
        return 2 * half**2 * solution(x) - 4 * cos(a) * cos(b) - 4 * row_sum(x * slopes)

    return Problem(
        Box([-1, -1], [1, 1]) - Ball([0, 0], radius),
        Residual(_poisson, data=source),
        conditions=[Dirichlet(0.0)],
        exact=solution,
        name="Poisson with a hole",
    )


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

    def equation(u: Any, x: Any, f: Any) -> Any:
        return laplacian(u, x) + k**2 * u(x) - f

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(equation, data=lambda x: (k**2 - np.sum(factors**2)) * solution(x)),
        conditions=[Periodic("x"), Periodic("y")] if periodic else [Dirichlet(0.0)],
        exact=solution,
        name="Helmholtz, periodic" if periodic else "Helmholtz",
    )


ENTRIES = (
    CatalogueEntry(
        "poisson-1d",
        "−u″ = (2π)² sin 2πx on [−1, 1], u = 0 at both ends",
        poisson,
        Suggestion(800, width=16, depth=2, steps=200),
    ),
    CatalogueEntry(
        "poisson-2d",
        "−Δu = f in the unit square, u = 0 on its boundary",
        poisson_square,
        Suggestion((30, 30), boundary=120, width=64, depth=1, steps=200),
    ),
    *(
        CatalogueEntry(
            f"poisson-{d}d",
            f"−Δu = f in the unit cube of {d} dimensions, u given on its boundary",
            partial(poisson_cube, dimension=d),
            Suggestion(points, boundary=boundary, width=width, depth=1, steps=steps),
        )
        for d, points, boundary, width, steps in (
            (5, 3000, 500, 64, 150),
            (10, 6000, 2000, 128, 200),
        )
    ),
    CatalogueEntry(
        "poisson-hole",
        "−Δu = f in [−1, 1]² with a round hole, u = 0 on both boundaries",
        poisson_hole,
        Suggestion(1000, boundary=240, method="sobol", width=20, depth=2, steps=200),
    ),
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
)
