"""Poisson's equation in several domains."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_positive, checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, in_windows
from sciml_par.problems.catalogue.functions import (
    arctan2,
    columns,
    cos,
    exp,
    row_product,
    row_sum,
    sin,
)
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.domains.polygon import Polygon
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual

FloatArray = npt.NDArray[np.float64]


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


def poisson_square(*, k: int | None = None, built_in: bool = False) -> Problem:
    """−Δu = f in the unit square, u = 0 on its boundary; u = sin πx sin πy, or with a second scale

        u = sin πx sin πy + sin kπx sin kπy

    Parameters
    ----------
    k : int, optional
        Wave number of the fine part, at least 2; by default there is none.
    built_in : bool
        Whether to use u = x (1 − x) y (1 − y) N, which is zero on the boundary, instead of a term
        of the loss.

    Raises
    ------
    InputError
        k is not an integer of at least 2.
    """
    scales = [1] if k is None else [1, checked_integer(k, "poisson_square: k", least=2)]

    def solution(x: Any) -> Any:
        return sum(row_product(sin(m * np.pi * x)) for m in scales)

    def source(x: Any) -> Any:
        return sum(2 * (m * np.pi) ** 2 * row_product(sin(m * np.pi * x)) for m in scales)

    return Problem(
        Box([0, 0], [1, 1]),
        Residual(_poisson, data=source),
        conditions=[] if built_in else [Dirichlet(0.0)],
        ansatz=(lambda network, x: row_product(x * (1 - x)) * network(x)) if built_in else None,
        exact=solution,
        name="Poisson, 2-D" if k is None else f"Poisson, two scales, k = {k}",
    )


def poisson_cube(*, dimension: int = 5, width: float | None = None) -> Problem:
    """−Δu = f in the unit cube, u given on its boundary; u = Σ cos πx_i, or with a peak

        u = Σ cos πx_i + exp(−|x − c|²/2s²),     c_i = 0.6

    Müller and Zeinhofer (2023), arXiv:2302.13163, section 4, solve it without a peak in five
    dimensions.

    Parameters
    ----------
    dimension : int
        At least 1.
    width : float, optional
        s > 0, a length; by default there is no peak.

    Raises
    ------
    InputError
        The dimension is not an integer of at least 1, or the width is not positive.
    """
    d = checked_integer(dimension, "poisson_cube: dimension", least=1)
    if width is not None:
        check_positive("poisson_cube", width=width)

    def waves(x: Any) -> Any:
        return row_sum(cos(np.pi * x))

    def solution(x: Any) -> Any:
        return waves(x) if width is None else waves(x) + _peak(x, width)

    def source(x: Any) -> Any:
        f = np.pi**2 * waves(x)
        if width is None:
            return f
        return f + (d - _squares(x) / width**2) / width**2 * _peak(x, width)

    return Problem(
        Box([0] * d, [1] * d),
        Residual(_poisson, data=source),
        conditions=[Dirichlet(solution)],
        exact=solution,
        name=f"Poisson, {d}-D" if width is None else f"Poisson, {d}-D, with a peak",
    )


def _squares(x: Any) -> Any:
    """|x − c|², c_i = 0.6."""
    return row_sum((x - 0.6) ** 2)


def _peak(x: Any, width: float) -> Any:
    return exp(-_squares(x) / (2 * width**2))


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


def poisson_corner() -> Problem:
    """Δu = 0 in an L, [−1, 1]² without (0, 1] × [−1, 0), u given on its boundary.

        u = r^{2/3} sin(2φ/3),     φ from 0 on the side y = 0 to 3π/2 on the side x = 0

    vanishes on both sides of the corner at the origin, where its gradient is not bounded.
    """
    return Problem(
        _l_shape(),
        laplacian,
        conditions=[Dirichlet(_corner_solution)],
        exact=_corner_solution,
        name="L-shape",
    )


def _l_shape() -> Polygon:
    return Polygon([[0, 0], [0, -1], [-1, -1], [-1, 1], [1, 1], [1, 0]])


def _corner_solution(x: Any) -> Any:
    """r^{2/3} cos(2ψ/3), ψ = φ − 3π/4, which has no jump in the L."""
    across, along = x[:, :1] + x[:, 1:], x[:, 1:] - x[:, :1]
    return row_sum(x**2) ** (1 / 3) * cos(2 / 3 * arctan2(-across, along))


def points_near_the_corner(count: int) -> FloatArray:
    """Place points in the L, most of them near its corner, where the solution is steep: [n, 2].

    These are Sobol' points of the L, each multiplied by its largest coordinate, max |x_i|.
    """
    x = _l_shape().sample(count, seed=0, method="sobol")
    return x * np.abs(x).max(axis=1, keepdims=True)


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
    CatalogueEntry(
        "poisson-two-scales",
        "−Δu = f in the unit square, u = 0 on its boundary; u = sin πx sin πy + sin 8πx sin 8πy",
        partial(poisson_square, k=8),
        in_windows(12_000, boundary=440, parts=(4, 4), features=200, scale=12.0),
    ),
    CatalogueEntry(
        "poisson-3d",
        "−Δu = f in the unit cube, u given on its boundary; u = Σ cos πx_i + a peak of width 0.15",
        partial(poisson_cube, dimension=3, width=0.15),
        Suggestion(3000, boundary=1200, method="sobol", width=30, depth=2, steps=150),
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
        "l-shape",
        "Δu = 0 in an L, u = r^(2/3) sin 2φ/3 given on its boundary: a corner",
        poisson_corner,
        Suggestion(2000, boundary=400, width=20, depth=2, steps=300),
        goal=1e-2,
        place=points_near_the_corner,
    ),
)
