"""Two sines, as function approximation."""

from __future__ import annotations

import numpy as np

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.function_approximation import function_approximation
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.problem import Problem


def two_sines(*, domain: Box | None = None) -> Problem:
    """u(x) = sin 2πx + sin 4πx on an interval, [−1, 1] by default, as function approximation."""
    return function_approximation(
        lambda x: np.sin(2 * np.pi * x) + np.sin(4 * np.pi * x),
        domain=Interval(-1.0, 1.0) if domain is None else domain,
        name="two sines",
    )


ENTRY = CatalogueEntry(
    "two-sines",
    "u = sin 2πx + sin 4πx on [−1, 1], as function approximation",
    two_sines,
    Suggestion(800, width=16, depth=2, steps=200),
)
