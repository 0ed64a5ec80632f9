"""A clamped beam under an even load, by Euler and Bernoulli."""

from __future__ import annotations

from typing import Any

from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.conditions.dirichlet import Dirichlet
from sciml_par.problems.conditions.neumann import Neumann
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.operators.operators import biharmonic
from sciml_par.problems.problem import Problem


def beam(*, load: float = 384.0) -> Problem:
    """u⁗ = q on [0, 1], u = u′ = 0 at both ends; u = q x² (1 − x)² / 24, a polynomial.

    Parameters
    ----------
    load : float
        q, the load per length over the bending stiffness; with 384 the greatest deflection is 1.
    """

    def solution(x: Any) -> Any:
        return load / 24 * (x * (1 - x)) ** 2

    def equation(u: Any, x: Any) -> Any:
        return (biharmonic(u, x) - load) / load

    return Problem(
        Interval(0, 1),
        equation,
        conditions=[Dirichlet(0.0), Neumann(0.0)],
        exact=solution,
        name="Euler beam",
    )


ENTRY = CatalogueEntry(
    "beam",
    "u⁗ = q on [0, 1], clamped at both ends: u = u′ = 0",
    beam,
    Suggestion(120, width=16, depth=1, steps=100),
)
