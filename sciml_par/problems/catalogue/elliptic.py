"""Poisson's and Helmholtz' equation on an interval and in a square."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet
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
    if not isinstance(interval, Box) or interval.dimension != 1:
        raise InputError(f"poisson: domain must be an Interval, got {interval!r}")
    phases = int(k) * np.array([interval.lower[0], interval.upper[0]])
    if not np.allclose(phases, np.round(phases), rtol=0.0, atol=1e-9):
        raise InputError(
            f"poisson: sin({k}πx) does not vanish at the ends of {interval}, where u = 0 is asked; "
            f"k times either end must be an integer"
        )
    wave = int(k) * np.pi
    return Problem(
        interval,
        Residual(_poisson, data=lambda x: wave**2 * sin(wave * x)),
        conditions=[Dirichlet(0.0, weight=2.0)],
        exact=lambda x: sin(wave * x),
        name=f"poisson, k = {k}",
    )


def poisson_square(*, built_in: bool = False) -> Problem:
    """−Δu = f in the unit square, u = 0 on its boundary; u = sin πx sin πy.

    Parameters
    ----------
    built_in : bool
        Whether to use u = x (1 − x) y (1 − y) N, which is zero on the boundary, instead of a term
        of the loss.
    """

    def solution(x: Any) -> Any:
        return sin(np.pi * x[:, :1]) * sin(np.pi * x[:, 1:])

    def ansatz(network: Any, x: Any) -> Any:
        inside = x * (1 - x)
        return inside[:, :1] * inside[:, 1:] * network(x)

    return Problem(
        Box([0, 0], [1, 1]),
        Residual(_poisson, data=lambda x: 2 * np.pi**2 * solution(x)),
        conditions=[] if built_in else [Dirichlet(0.0)],
        ansatz=ansatz if built_in else None,
        exact=solution,
        name="Poisson, 2-D",
    )


def helmholtz(*, k: float = 1.0, waves: tuple[int, int] = (1, 4)) -> Problem:
    """Δu + k² u = f in [−1, 1]², u = 0 on the boundary; u = sin aπx sin bπy.

    Wang, Teng and Perdikaris (2021), SIAM J. Sci. Comput. 43, A3055, eq. (36).

    Parameters
    ----------
    k : float
        Wave number, per length.
    waves : two ints
        a and b; u vanishes on the boundary for integers.
    """
    factors = np.pi * np.array(waves, np.float64)

    def solution(x: Any) -> Any:
        return sin(factors[0] * x[:, :1]) * sin(factors[1] * x[:, 1:])

    return Problem(
        Box([-1, -1], [1, 1]),
        Residual(
            lambda u, x, f: laplacian(u, x) + k**2 * u(x) - f,
            data=lambda x: (k**2 - np.sum(factors**2)) * solution(x),
        ),
        conditions=[Dirichlet(0.0)],
        exact=solution,
        name="Helmholtz",
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
    CatalogueEntry(
        "helmholtz",
        "Δu + u = f in [−1, 1]², u = 0 on the boundary; u = sin πx sin 4πy",
        helmholtz,
        Suggestion((48, 48), boundary=240, width=20, depth=3, steps=300),
    ),
)
