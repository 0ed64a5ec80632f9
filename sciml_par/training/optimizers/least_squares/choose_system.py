"""Which solver a Gauss–Newton method takes, by what it needs of memory and time."""

from __future__ import annotations

from dataclasses import dataclass

from sciml_par.errors import InputError
from sciml_par.training.optimizers.least_squares.matrix_free import MatrixFree
from sciml_par.training.optimizers.least_squares.panels import Panels
from sciml_par.training.optimizers.least_squares.solvers import (
    AUTO,
    BLOCK_CHOLESKY,
    KERNEL,
    MATRIX_FREE,
    NORMAL_EQUATIONS,
    QR,
)

_DOUBLE = 8
MOST_MULTIPLICATIONS = 2e12
"""Of a rank in one step, by its own choice: about two minutes of a core."""

_DIVIDED_FROM = 2_000
"""Parameters from which it pays to divide the matrix; below, what the ranks tell each other costs
more."""

_WORTH_SAYING = 2**30


@dataclass(frozen=True)
class Choice:
    """A solver, and what it takes.

    Attributes
    ----------
    solver : its name.
    bytes : that a rank needs for J and the matrices, at most.
    sentence : for the user, empty where there is nothing to know.
    """

    solver: str
    bytes: int
    sentence: str


def needed_memory(solver: str, p: int, rows: int, ranks: int, members: int = 1) -> int:
    """Bytes that a rank needs for J and the matrices of a step, at most.

    What the residuals themselves take is not counted.
    """
    # J, and the parts that it is put together of.
    jacobian = 2 * p * rows
    found = {
        # The sum and this rank's part of a triangle; one product, and the factor.
        NORMAL_EQUATIONS: jacobian + 3 * p * p,
        # The columns of all rows that this rank has; the sum, one product and the factor.
        KERNEL: jacobian + p * rows + 3 * (rows * ranks) ** 2,
        # The matrix, the factor, what is left of the matrix before and after a panel, and what XLA
        # copies; panels that are made and sent. Measured with 5,081 parameters on two ranks.
        BLOCK_CHOLESKY: jacobian + 5 * Panels(p, ranks).most_elements() + 6 * _panel(p, ranks),
        # [J r] twice, since LAPACK overwrites it; the triangles of all ranks; the factor.
        QR: 2 * jacobian + ranks * p * p // 2 + 4 * p * p,
        # The sketch, its root and eigenvectors; vectors.
        MATRIX_FREE: 4 * p * min(p, MatrixFree().rank) + 20 * p + 10 * rows,
    }
    return _DOUBLE * members * found[solver]


def multiplications(p: int, rows: int, ranks: int) -> float:
    """Of a rank in a step by normal equations that are divided over the ranks."""
    return float(p) ** 2 * rows + float(p) ** 3 / (3 * ranks)


def choose_system(
    p: int,
    rows: int,
    ranks: int,
    memory: int | None,
    *,
    solver: str = AUTO,
    members: int = 1,
) -> Choice:
    """Return the solver that is taken, which a function of these numbers decides.

    The kernel where there are fewer residuals than parameters. Else normal equations as long as
    they fit and take no more than `MOST_MULTIPLICATIONS`; divided over the ranks where there are
    several, and from 2,000 parameters on; without any matrix beyond.
    """

    def fits(name: str) -> bool:
        return memory is None or needed_memory(name, p, rows, ranks, members) <= memory

    if solver != AUTO:
        if not fits(solver):
            raise InputError(_too_large(solver, p, rows, ranks, members, memory or 0))
        return _choice(solver, p, rows, ranks, members, asked=True)
    quick = members * multiplications(p, rows, ranks) <= MOST_MULTIPLICATIONS
    divided = ranks > 1 and p >= _DIVIDED_FROM
    order = [BLOCK_CHOLESKY] if divided else [NORMAL_EQUATIONS, BLOCK_CHOLESKY]
    if rows * ranks < p:
        order = [KERNEL, *order]
        quick = quick or members * multiplications(rows * ranks, p, 1) <= MOST_MULTIPLICATIONS
    for name in (*(order if quick else ()), MATRIX_FREE):
        if fits(name):
            return _choice(name, p, rows, ranks, members, asked=False)
    raise InputError(_too_large(MATRIX_FREE, p, rows, ranks, members, memory or 0))


def _panel(p: int, ranks: int) -> int:
    rows, columns = Panels(p, ranks).shape(0)
    return rows * columns


def _choice(name: str, p: int, rows: int, ranks: int, members: int, *, asked: bool) -> Choice:
    needed = needed_memory(name, p, rows, ranks, members)
    sentence = ""
    if needed >= _WORTH_SAYING or not (asked or name in (NORMAL_EQUATIONS, KERNEL)):
        sentence = (
            f"LevenbergMarquardt solves for {p:,} parameters by solver={name!r}, which takes about "
            f"{_size(needed)} of memory on each rank, beside what its {rows:,} residuals take."
        )
        if name == MATRIX_FREE and not asked:
            sentence += " Its steps are less exact; more ranks make the others possible."
    return Choice(name, needed, sentence)


def _too_large(solver: str, p: int, rows: int, ranks: int, members: int, memory: int) -> str:
    needed = needed_memory(solver, p, rows, ranks, members)
    jacobian = 0 if solver == MATRIX_FREE else _DOUBLE * members * 2 * p * rows
    remedy = "use more ranks, fewer points" + (
        "" if solver == MATRIX_FREE else f", or solver={MATRIX_FREE!r}, which forms no matrix"
    )
    return (
        f"LevenbergMarquardt: solver={solver!r} needs about {_size(needed)} of memory on each rank "
        f"({_size(jacobian)} of it for the derivatives of {rows:,} residuals by {p:,} parameters), "
        f"and {_size(memory)} are free; {remedy}."
    )


def _size(number: int) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6)):
        if number >= one:
            return f"{number / one:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"
