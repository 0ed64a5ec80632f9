"""The columns of a window in which its rows are orthonormal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Basis:
    """The columns of a window in which its rows are orthonormal: A[:, pivots] T⁻¹.

    Attributes
    ----------
    triangle : T, [k, k].
    pivots : the columns kept, [k] of c.
    """

    triangle: Array
    pivots: IntArray

    def of(self, rows: Array) -> Array:
        """Return rows [R, c] in this basis, [R, k]."""
        chosen = rows[:, self.pivots].T
        return np.asarray(solve_triangular(self.triangle, chosen, trans=1, check_finite=False).T)

    def weights(self, y: Array, columns: int) -> Array:
        """Return the weights [c] of what has the coefficients y: [k] in this basis."""
        found = np.zeros(columns)
        found[self.pivots] = solve_triangular(self.triangle, y, check_finite=False)
        return found


def basis_of(triangle: Array, cutoff: float) -> Basis:
    """Return the basis for R of the QR factors of a window's rows: [r, c]."""
    _, t, pivots = qr(triangle, mode="economic", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(t))
    rank = int(np.sum(diagonal > cutoff * diagonal[0])) if diagonal.size else 0
    return Basis(np.ascontiguousarray(t[:rank, :rank]), pivots[:rank])
