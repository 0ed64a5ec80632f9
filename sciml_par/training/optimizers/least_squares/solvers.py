"""The solvers of linear systems by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.execution.host_function import can_call_on_host
from sciml_par.training.optimizers.least_squares.block_cholesky import BlockCholesky
from sciml_par.training.optimizers.least_squares.kernel_form import KernelForm
from sciml_par.training.optimizers.least_squares.linear_system import LinearSystem
from sciml_par.training.optimizers.least_squares.matrix_free import MatrixFree
from sciml_par.training.optimizers.least_squares.normal_equations import NormalEquations
from sciml_par.training.optimizers.least_squares.orthogonal_factors import OrthogonalFactors
from sciml_par.training.optimizers.optimizer import Batch, Objective

AUTO = "auto"
NORMAL_EQUATIONS, KERNEL = "normal equations", "kernel"
BLOCK_CHOLESKY, QR, MATRIX_FREE = "block cholesky", "qr", "matrix free"

SMALLER = (AUTO, NORMAL_EQUATIONS, KERNEL)
"""Those with the smaller one of two matrices."""

ALL = (*SMALLER, BLOCK_CHOLESKY, QR, MATRIX_FREE)

_SYSTEMS: dict[str, Callable[[], LinearSystem]] = {
    NORMAL_EQUATIONS: NormalEquations,
    BLOCK_CHOLESKY: BlockCholesky,
    QR: OrthogonalFactors,
    MATRIX_FREE: MatrixFree,
}


def make_system(
    solver: str, objective: Objective, batch: Batch, parameters: int, *, scaled: bool
) -> LinearSystem:
    """Return the solver for p parameters, the same on every rank."""
    if solver in (AUTO, KERNEL):
        counts = objective.residuals_of_ranks(batch)
        if solver == KERNEL or sum(counts) < parameters:
            return KernelForm(counts, scaled)
    return system_of(solver)


def system_of(solver: str) -> LinearSystem:
    """Return the solver of this name but for the kernel; normal equations for "auto"."""
    made = _SYSTEMS.get(solver, NormalEquations)()
    if not isinstance(made, NormalEquations) and not can_call_on_host():
        raise InputError(
            f"LevenbergMarquardt: solver={solver!r} works on the host, but this program is "
            f"compiled for a GPU; use {NORMAL_EQUATIONS!r}, or hide the GPU from TensorFlow."
        )
    return made


def check_solver(where: str, solver: Any, names: Sequence[str] = ALL) -> None:
    """Check that it is one of the names."""
    if not isinstance(solver, str) or solver not in names:
        raise InputError(
            f"{where}: expected solver to be one of {', '.join(map(repr, names))}; got {solver!r}."
        )
