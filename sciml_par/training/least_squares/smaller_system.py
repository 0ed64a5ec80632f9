"""Which linear system the steps of a Gauss–Newton method are computed by."""

from __future__ import annotations

from typing import Any

from sciml_par.errors import InputError
from sciml_par.training.least_squares.kernel_form import KernelForm
from sciml_par.training.least_squares.linear_system import LinearSystem
from sciml_par.training.least_squares.normal_equations import NormalEquations
from sciml_par.training.optimizers.optimizer import Batch, Objective

AUTO, NORMAL_EQUATIONS, KERNEL = "auto", "normal equations", "kernel"
SOLVERS = (AUTO, NORMAL_EQUATIONS, KERNEL)


def check_solver(where: str, solver: Any) -> None:
    """See that there is a solver of that name (local)."""
    if solver not in SOLVERS:
        known = ", ".join(map(repr, SOLVERS))
        raise InputError(f"{where}: expected solver to be one of {known}; got {solver!r}.")


def make_system(
    solver: str, objective: Objective, batch: Batch, parameters: int, *, scaled: bool
) -> LinearSystem:
    """The system for p parameters, the same on every rank (local).

    Parameters
    ----------
    solver : "auto" takes the kernel where all ranks together have fewer residuals than parameters.
    scaled : whether D may differ from 1.
    """
    if solver == NORMAL_EQUATIONS:
        return NormalEquations()
    counts = objective.residuals_of_ranks(batch)
    if solver == KERNEL or sum(counts) < parameters:
        return KernelForm(counts, scaled)
    return NormalEquations()
