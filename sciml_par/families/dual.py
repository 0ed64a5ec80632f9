"""Residuals weighed by the error for which they stand: |T r| ≈ |J₀⁺ r| in L2, J₀ of one query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SEED, _RANK = 11, 1e-13


class DualNorm:
    """|E J⁺ r|, the size of the error u with J u = r (local).

    The sum of squares of residuals weighs fine structures, by which a basis answers them at the
    cost of the rest; this norm does not (Quarteroni, Manzoni, Negri 2016, Reduced Basis Methods for
    Partial Differential Equations, §3.6).

    Parameters
    ----------
    columns : Jᵀ of a query, [p, N].
    values : E, of the columns at points, with the roots of their weights, [n, p].
    """

    def __init__(self, columns: Array, values: Array) -> None:
        from scipy import linalg as sl

        sizes = np.linalg.norm(columns, axis=1)
        sizes[sizes <= _RANK * sizes.max()] = np.inf  # of what no row tells
        scaled = (columns / sizes[:, None]).T
        self._values, self._order = values / sizes, np.arange(len(sizes))
        self._q, r = sl.qr(scaled, mode="economic", check_finite=False)
        if np.abs(r.diagonal()).min() <= _RANK * np.abs(r.diagonal()).max():
            self._q, r, self._order = sl.qr(scaled, mode="economic", pivoting=True)
        rank = int(np.count_nonzero(np.abs(r.diagonal()) > _RANK * np.abs(r[0, 0])))
        self._r, self._order = r[:rank, :rank], self._order[:rank]

    def weights(self, rows: int) -> Array:
        """Return T: [s, N] with |T r| ≈ |E J⁺ r|, of at most so many rows.

        If these are fewer than columns, T = S E J⁺ with random S of variance 1/s, which changes
        norms by about 1/√(2s) (Balabanov, Nouy 2019, Randomized Linear Algebra for Model Order
        Reduction I, Advances in Computational Mathematics 45).
        """
        from scipy import linalg as sl

        e = self._values[:, self._order]
        if rows < len(self._order):
            rng = np.random.default_rng(_SEED)
            e = rng.normal(scale=rows**-0.5, size=(rows, len(e))) @ e
        else:
            e = np.linalg.qr(e, mode="r")
        half = sl.solve_triangular(self._r, e.T, trans="T", check_finite=False)
        return np.ascontiguousarray((self._q[:, : len(self._order)] @ half).T)
