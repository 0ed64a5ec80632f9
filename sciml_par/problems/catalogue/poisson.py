"""The Poisson equation on an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def poisson(*, k: int = 2, domain: Box | None = None) -> Problem:
    """−u″ = (kπ)² sin(kπx) on an interval, u = 0 at both ends; u = sin(kπx).

    The loss is mean |−u″ − f|² + u(lower)² + u(upper)²: the Dirichlet weight is 2, because the
    mean over the two ends is taken.

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

    def equation(u: Any, x: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
        return -laplacian(u, x) - f

    return Problem(
        interval,
        Residual(equation, data=lambda x: wave**2 * np.sin(wave * x)),
        conditions=[Dirichlet(0.0, weight=2.0)],
        exact=lambda x: np.sin(wave * x),
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


ENTRY = CatalogueEntry(
    "poisson-1d",
    "−u″ = (2π)² sin 2πx on [−1, 1], u = 0 at both ends",
    poisson,
    Suggestion(800, width=16, depth=2, steps=200),
)
