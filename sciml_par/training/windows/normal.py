"""Least squares for block-sparse Jacobians of windows, over the rows of all ranks.

QR factors of the rows of each window first make its columns orthonormal. The condition of these
columns together is moderate if windows overlap by a small part, so that the normal equations lose
no accuracy. Without this step they are numerically singular.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.together import together
from sciml_par.training.windows.bases import Basis, basis_of
from sciml_par.training.windows.exchange import exchanged, summed
from sciml_par.training.windows.rows import WindowRows
from sciml_par.training.windows.strip_layout import Layout, Strips, pairs_of
from sciml_par.training.windows.strip_solver import StripSolver

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_REFINEMENTS = 2


class NormalEquations:
    """min |J d − r|² over the rows of all ranks, for one J (collective)."""

    def __init__(
        self,
        rows: WindowRows,
        partition: Partition,
        ranks: Communicator,
        *,
        axis: int,
        columns: int,
        method: LeastSquares,
        dtype: Any,
    ) -> None:
        self._rows, self._ranks, self._columns = rows, ranks, columns
        self._strips = Strips(partition, axis, rows, ranks)
        self._bases = self._common_bases(method.cutoff_in(dtype))
        self._blocks = {k: (i, self._bases[k].of(a)) for k, (i, a) in rows.blocks.items()}
        counts = np.zeros(partition.count)
        for k in self._owned():
            counts[k] = len(self._bases[k].pivots)
        self._layout = Layout(self._strips, summed(counts, ranks).astype(int))
        blocks = self._blocks_of_owners()
        self._solver = StripSolver(self._strips, self._layout, blocks, ranks)
        self._border = self._of_unknowns()

    @property
    def columns_kept(self) -> int:
        """How many columns all windows have that do not depend on others of their window."""
        return self._layout.size

    def solve(self) -> tuple[dict[int, Array], Array]:
        """Return d: the weights of each window [c], and the unknowns [q] (collective, once).

        Zeros follow where a window has fewer weights than others.
        """
        r = self._rows.residuals
        y, z = self._solved(r)
        for _ in range(_REFINEMENTS):
            more, more_z = self._solved(r - self._times(y, z))
            y, z = y + more, z + more_z
        parts = self._layout.split(y)
        weights = np.zeros((len(self._strips.owner_of_window), self._columns))
        for k in self._owned():
            weights[k] = self._bases[k].weights(parts[k], self._columns)
        weights = summed(weights, self._ranks)
        return {k: weights[k] for k in parts}, z

    def predicted(self, d: tuple[dict[int, Array], Array]) -> float:
        """Return |r − J d|² over this rank's rows (local)."""
        left = self._rows.residuals - self._rows.by_unknowns @ d[1]
        for k, (i, a) in self._rows.blocks.items():
            left[i] -= a @ d[0][k][: a.shape[1]]
        return float(left @ left)

    @property
    def windows(self) -> list[int]:
        """The numbers of the windows that have rows on some rank."""
        return self._layout.windows

    def _owned(self) -> list[int]:
        """Return the windows of this rank's strips that have rows on any rank."""
        own = self._strips.owner_of_window
        return sorted(k for k in self._bases if own[k] == self._ranks.rank)

    def _common_bases(self, cutoff: float) -> dict[int, Basis]:
        """Return the bases of the windows that have rows on this rank, or that it owns."""
        own = self._strips.owner_of_window
        triangles: list[dict[Any, Array]] = [{} for _ in range(self._ranks.size)]
        for k, (_, a) in self._rows.blocks.items():
            triangles[own[k]][k] = np.linalg.qr(a, mode="r")
        received = exchanged(triangles, self._ranks)
        parts: dict[int, list[Array]] = {}
        for each in received:
            for k, triangle in each.items():
                parts.setdefault(k, []).append(triangle)

        def bases() -> dict[int, Basis]:
            return {k: basis_of(np.vstack(each), cutoff) for k, each in parts.items()}

        found = together(self._ranks, bases)
        back = [{k: found[k] for k in each} or None for each in received]
        for bases_of_rank in self._ranks.exchange_objects(back):
            found |= bases_of_rank or {}
        return found

    def _blocks_of_owners(self) -> dict[Any, Array]:
        """Return Σ over the ranks of Q_kᵀ Q_l for the owner of the strip of k ≥ l."""
        given: list[dict[Any, Array]] = [{} for _ in range(self._ranks.size)]
        for k, other in pairs_of(self._rows):
            if self._strips.before(k, other):
                k, other = other, k
            (i, q), (j, p) = self._blocks[k], self._blocks[other]
            if k == other:
                product = q.T @ q
            else:
                _, a, b = np.intersect1d(i, j, assume_unique=True, return_indices=True)
                product = q[a].T @ p[b]
            given[self._strips.owner_of_window[k]][k, other] = product
        found: dict[Any, Array] = {}
        for each in exchanged(given, self._ranks):
            for pair, product in each.items():
                found[pair] = found[pair] + product if pair in found else product
        return found

    def _of_unknowns(self) -> tuple[Array, Array]:
        """Return N⁻¹ F and the Schur complement of the unknowns, for F = Qᵀ ∂r/∂a."""
        f = self._rows.by_unknowns
        q = f.shape[1]
        if not q:
            return np.empty((self._layout.size, 0)), np.empty((0, 0))
        right = self._transposed_times(f)
        reached = self._solver.solve(right)
        whole: Array = summed(f.T @ f, self._ranks)
        whole -= right.T @ reached
        return reached, whole

    def _solved(self, r: Array) -> tuple[Array, Array]:
        """Return the coefficients of the windows [n] and the unknowns [q] for residuals."""
        right = self._transposed_times(r[:, None])
        y = self._solver.solve(right)[:, 0]
        reached, complement = self._border
        if not len(complement):
            return y, np.empty(0)
        f = summed(self._rows.by_unknowns.T @ r, self._ranks)
        z = np.linalg.lstsq(complement, f - reached.T @ right[:, 0], rcond=None)[0].astype(
            np.float64
        )
        return y - reached @ z, z

    def _transposed_times(self, f: Array) -> Array:
        """Return Qᵀ f over the rows of all ranks: [N, k] -> [n, k] (collective)."""
        found = np.zeros((self._layout.size, f.shape[1]))
        for k, (i, q) in self._blocks.items():
            found[self._layout.window(k)] = q.T @ f[i]
        return summed(found, self._ranks)

    def _times(self, y: Array, z: Array) -> Array:
        """Return J d over this rank's rows for coefficients of windows and unknowns (local)."""
        found = self._rows.by_unknowns @ z
        for k, (i, q) in self._blocks.items():
            found[i] += q @ y[self._layout.window(k)]
        return found
