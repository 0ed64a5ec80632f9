"""The solvers of linear systems by their names, and which one a size and a memory allow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sciml_par.errors import InputError

if TYPE_CHECKING:
    from sciml_par.training.loss.window_jacobian import WindowBand
    from sciml_par.training.optimizers.least_squares.linear_system import LinearSystem
    from sciml_par.training.optimizers.optimizer import Batch, Objective

AUTO = "auto"
NORMAL_EQUATIONS, KERNEL = "normal equations", "kernel"
BLOCK_CHOLESKY, QR, MATRIX_FREE = "block cholesky", "qr", "matrix free"
WINDOWS = "windows"

SMALLER = (AUTO, NORMAL_EQUATIONS, KERNEL)
"""Those with the smaller one of two matrices."""

ALL = (*SMALLER, BLOCK_CHOLESKY, QR, MATRIX_FREE, WINDOWS)

# The modules of this folder, each read when its solver is taken.
_SYSTEMS = {
    NORMAL_EQUATIONS: "normal_equations.NormalEquations",
    KERNEL: "kernel_form.KernelForm",
    BLOCK_CHOLESKY: "block_cholesky.BlockCholesky",
    QR: "orthogonal_factors.OrthogonalFactors",
    MATRIX_FREE: "matrix_free.MatrixFree",
    WINDOWS: "window_equations.WindowEquations",
}
# Multiplications of a rank in one step: about two minutes of a core.
_MOST_MULTIPLICATIONS = 2e12
# With fewer parameters or ranks, communication costs more than dividing the factor saves: on two
# ranks, steps with 2,626 and 4,897 parameters took 1.3 and 1.2 times as long.
_DIVIDED_FROM, _DIVIDED_OVER = 2_000, 4
_WORTH = 4
"""The factor in work from which windows are worth other operations."""
_WORTH_SAYING = 2**30


def make_system(
    solver: str, objective: Objective, batch: Batch, parameters: int, *, scaled: bool
) -> LinearSystem:
    """Return the solver for p parameters, the same on every rank."""
    if solver in (AUTO, KERNEL):
        counts = objective.residuals_of_ranks(batch)
        if solver == KERNEL or sum(counts) < parameters:
            return _system(KERNEL, counts, scaled)
    if solver == WINDOWS and objective.band is not None:
        _check_host(solver)
        return _system(WINDOWS, objective.band)
    return system_of(solver)


def system_of(solver: str) -> LinearSystem:
    """Return the solver of this name but for the kernel; normal equations for "auto"."""
    name = solver if solver in (BLOCK_CHOLESKY, QR, MATRIX_FREE) else NORMAL_EQUATIONS
    if name != NORMAL_EQUATIONS:
        _check_host(solver)
    return _system(name)


def _system(solver: str, *arguments: Any) -> LinearSystem:
    module, name = _SYSTEMS[solver].split(".")
    made: LinearSystem = getattr(import_module(f"{__package__}.{module}"), name)(*arguments)
    return made


def _check_host(solver: str) -> None:
    from sciml_par.parallel.execution.host_function import can_call_on_host

    if not can_call_on_host():
        raise InputError(
            f"LevenbergMarquardt: solver={solver!r} works on the host, but this program is "
            f"compiled for a GPU; use {NORMAL_EQUATIONS!r}, or hide the GPU from TensorFlow."
        )


def check_solver(where: str, solver: Any, names: Sequence[str] = ALL) -> None:
    """Check that it is one of the names."""
    if not isinstance(solver, str) or solver not in names:
        raise InputError(
            f"{where}: expected solver to be one of {', '.join(map(repr, names))}; got {solver!r}."
        )


def choose_solver(
    p: int,
    rows: int,
    ranks: int,
    memory: int | None,
    *,
    solver: str = AUTO,
    members: int = 1,
    band: WindowBand | None = None,
) -> tuple[str, str]:
    """Return the solver for p parameters and a rank's rows, and a sentence for the user or "".

    Kernel where there are fewer residuals than parameters, else normal equations, divided over
    four ranks or more from 2,000 parameters on; matrix free where these do not fit or are slow.
    Those of windows where they take a quarter of the work or less.
    """

    def needed(name: str) -> int:
        return members * _memory(name, p, rows, ranks, band)

    if solver == WINDOWS and (band is None or members > 1):
        raise InputError(
            "LevenbergMarquardt: solver='windows' is for one model whose network is a Windows "
            "without unknown functions; leave solver= out."
        )
    usable = [solver]
    if solver == AUTO:
        divided = ranks >= _DIVIDED_OVER and p >= _DIVIDED_FROM
        dense = [BLOCK_CHOLESKY] if divided else [NORMAL_EQUATIONS, BLOCK_CHOLESKY]
        size = min(p, rows * ranks)
        work = float(p) * rows * size + float(size) ** 3 / (3 * ranks)
        usable = [KERNEL, *dense] if rows * ranks < p else dense
        usable = [*(usable if members * work <= _MOST_MULTIPLICATIONS else ()), MATRIX_FREE]
        if band is not None and members == 1:
            banded = float(band.size) * band.width**2 + rows * float(band.width) ** 2
            usable = [WINDOWS] if _WORTH * banded < work else usable
    fitting = [name for name in usable if memory is None or needed(name) <= memory]
    if not fitting:
        last = usable[-1]
        fewer = "" if last == MATRIX_FREE else f", or solver={MATRIX_FREE!r}, which forms no matrix"
        raise InputError(
            f"LevenbergMarquardt: solver={last!r} needs about {_size(needed(last))} of memory on "
            f"each rank for {rows:,} residuals and {p:,} parameters, and {_size(memory or 0)} are "
            f"free; use more ranks, fewer points{fewer}."
        )
    taken = fitting[0]
    usual = solver != AUTO or taken in (NORMAL_EQUATIONS, KERNEL)
    if usual and needed(taken) < _WORTH_SAYING:
        return taken, ""
    sentence = (
        f"LevenbergMarquardt solves for {p:,} parameters by solver={taken!r}, which takes about "
        f"{_size(needed(taken))} of memory on each rank, in addition to its {rows:,} residuals."
    )
    if solver == AUTO and taken == MATRIX_FREE:
        sentence += " Its steps are less exact; more ranks make the others possible."
    return taken, sentence


def _memory(solver: str, p: int, rows: int, ranks: int, band: WindowBand | None) -> int:
    """Return about how many bytes a rank needs: twice J and four times the matrix."""
    if solver == WINDOWS and band is not None:
        columns = band.slots * band.places.shape[1]
        return 8 * (3 * columns * rows + 4 * band.size * band.width)
    if solver == MATRIX_FREE:
        return 8 * (500 * p + 10 * rows)
    size = rows * ranks if solver == KERNEL else p
    share = ranks if solver == BLOCK_CHOLESKY else 1
    return 8 * (2 * p * rows + 4 * size * size // share)


def _size(number: int) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6)):
        if number >= one:
            return f"{number / one:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"
