"""The requests of a residual to a field, which a field computes together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciml_par._partial_operators import Operator
from sciml_par.problems.checks.arrays import FloatArray

Coefficients = FloatArray
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Request:
    """The values and derivatives that are asked of a field at one tensor of points.

    Parameters
    ----------
    derivatives : bool
        Whether any derivative is asked for; with False, the value alone.
    second : tuple of matrices
        The coefficient matrices [d, d] of the second-order operators, each once.
    higher : tuple of operators
        Those of third and fourth order, each once: axes and coefficient of every term.
    """

    derivatives: bool = False
    second: tuple[Matrix, ...] = ()
    higher: tuple[Operator, ...] = ()

    def union(self, other: Request) -> Request:
        """Return the union of both requests, in the order of first appearance."""
        new = tuple(matrix for matrix in other.second if matrix not in self.second)
        above = tuple(operator for operator in other.higher if operator not in self.higher)
        return Request(
            self.derivatives or other.derivatives, self.second + new, self.higher + above
        )


Plan = tuple[Request, ...]
"""A request for each distinct tensor of points, in the order in which a residual uses them."""


def as_matrices(second: Coefficients) -> tuple[Matrix, ...]:
    """Return coefficients [K, d, d] as tuples, which can be compared and hashed."""
    return tuple(tuple(tuple(map(float, row)) for row in matrix) for matrix in second)


def as_coefficients(matrices: tuple[Matrix, ...], d: int) -> Coefficients:
    """Return the inverse of `as_matrices`: [K, d, d], also for K = 0."""
    return np.array(matrices, dtype=np.float64).reshape(-1, d, d)
