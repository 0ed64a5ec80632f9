"""Networks fitted to known functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion, sin
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def function_approximation(
    function: Callable[[FloatArray], npt.ArrayLike],
    *,
    domain: Domain,
    outputs: int = 1,
    name: str = "function approximation",
) -> Problem:
    """Build a fit of a network to a known function, u(x) = f(x).

    Parameters
    ----------
    function : callable
        f in NumPy: x: [n, d] (float64) -> [n, m], or [n] if m = 1. It is the exact solution, and
        its values at the training points, computed once, are the data.
    domain : Domain
    outputs : int
        Number m of components.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.problems import Interval, function_approximation
    >>> problem = function_approximation(np.cos, domain=Interval(0, 1))
    >>> problem.exact([[0.0]])
    array([[1.]])
    """

    def misfit(u: Any, x: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
        return u(x) - f

    return Problem(
        domain, Residual(misfit, data=function), exact=function, outputs=outputs, name=name
    )


def two_sines(*, domain: Box | None = None) -> Problem:
    """Build the fit of u(x) = sin 2πx + sin 4πx on an interval, by default [−1, 1]."""
    return function_approximation(
        lambda x: sin(2 * np.pi * x) + sin(4 * np.pi * x),
        domain=Interval(-1.0, 1.0) if domain is None else domain,
        name="two sines",
    )


ENTRIES = (
    CatalogueEntry(
        "two-sines",
        "u = sin 2πx + sin 4πx on [−1, 1], as function approximation",
        two_sines,
        Suggestion(800, width=16, depth=2, steps=200),
    ),
)
