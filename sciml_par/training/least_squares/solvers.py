"""The solvers of linear systems by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.execution.host_function import can_call_on_host
from sciml_par.training.least_squares.block_cholesky import BlockCholesky
from sciml_par.training.least_squares.linear_system import LinearSystem
from sciml_par.training.least_squares.matrix_free import MatrixFree
from sciml_par.training.least_squares.normal_equations import NormalEquations
from sciml_par.training.least_squares.orthogonal_factors import OrthogonalFactors

AUTO = "auto"
NORMAL_EQUATIONS, BLOCK_CHOLESKY = "normal equations", "block cholesky"
QR, MATRIX_FREE = "qr", "matrix free"

_SYSTEMS: dict[str, Callable[[], LinearSystem]] = {
    NORMAL_EQUATIONS: NormalEquations,
    BLOCK_CHOLESKY: BlockCholesky,
    QR: OrthogonalFactors,
    MATRIX_FREE: MatrixFree,
}


def system_of(solver: str) -> LinearSystem:
    """The solver of this name; that by normal equations where none was chosen (local).

    Raises
    ------
    InputError
        It calls LAPACK, which programs that XLA compiles for a GPU cannot.
    """
    made = _SYSTEMS.get(solver, NormalEquations)()
    if not isinstance(made, NormalEquations) and not can_call_on_host():
        raise InputError(
            f"LevenbergMarquardt: solver={solver!r} works on the host, but this program is "
            f"compiled for a GPU; use {NORMAL_EQUATIONS!r}, or hide the GPU from TensorFlow."
        )
    return made


def check_solver(where: str, solver: Any) -> None:
    """See that it is the name of a solver, or "auto" (local)."""
    names = (AUTO, *_SYSTEMS)
    if not isinstance(solver, str) or solver not in names:
        raise InputError(
            f"{where}: expected solver to be one of {', '.join(map(repr, names))}; got {solver!r}."
        )
