"""Least squares for block-sparse Jacobians of windows, over the rows of all ranks.

QR factors of the rows of each window first make its columns orthonormal. The condition of these
columns together is moderate if windows overlap by a small part, so that the normal equations lose
no accuracy. Without this step they are numerically singular.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular

from sciml_par.algebra.banded import Block, common_rows
from sciml_par.algebra.dense import triangle
from sciml_par.networks.propagation.partition import Partition
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.outcome.together import together
from sciml_par.training.windows.exchange import exchanged, summed
from sciml_par.training.windows.rows import WindowRows
from sciml_par.training.windows.strip_layout import Layout, Strips
from sciml_par.training.windows.strips import StripSolver

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_REFINEMENTS = 2


@dataclass(frozen=True)
class _Basis:
    """The columns of a window in which its rows are orthonormal: A[:, pivots] T⁻¹.

    Attributes
    ----------
    triangle : T, [k, k].
    pivots : the columns kept, [k] of c.
    """

    triangle: Array
    pivots: IntArray

    @classmethod
    def of(cls, triangles: list[Array], cutoff: float) -> _Basis:
        """Return the basis for the R: [r, c] of the QR factors of a window's rows on all ranks."""
        _, t, pivots = qr(np.vstack(triangles), mode="economic", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(t))
        rank = int(np.sum(diagonal > cutoff * diagonal[0])) if diagonal.size else 0
        return cls(np.ascontiguousarray(t[:rank, :rank]), pivots[:rank])

    def unit(self, block: Block) -> Block:
        """Return rows of the window in this basis."""
        columns = block.columns[self.pivots]
        return Block(
            block.rows, solve_triangular(self.triangle, columns, trans=1, check_finite=False)
        )


class NormalEquations:
    """min |J d − r|² over the rows of all ranks, for one J (collective).

    Parameters
    ----------
    axis : along which windows are in strips.
    columns : the weights of the largest window.
    cutoff : the least distance of a column from the span of others that is kept, relative to the
        largest one.
    """

    def __init__(
        self,
        rows: WindowRows,
        partition: Partition,
        ranks: Communicator,
        *,
        axis: int,
        columns: int,
        cutoff: float,
    ) -> None:
        self._rows, self._ranks, self._columns = rows, ranks, columns
        numbers = list(rows.blocks)
        pairs = common_rows([block.rows for block in rows.blocks.values()])
        common = {(numbers[k], numbers[other]): places for (k, other), places in pairs.items()}
        self._strips = Strips(partition, axis, rows.blocks, common, ranks)
        self._bases = self._common_bases(cutoff)
        self._blocks = {k: self._bases[k].unit(block) for k, block in rows.blocks.items()}
        counts = np.zeros(partition.count)
        for k in self._owned():
            counts[k] = len(self._bases[k].pivots)
        self._layout = Layout(self._strips, summed(counts, ranks).astype(int))
        self._solver = StripSolver(
            self._strips, self._layout, self._blocks_of_owners(common), ranks
        )
        self._border = self._of_unknowns()

    @property
    def columns_kept(self) -> int:
        """How many columns all windows have that do not depend on others of their window."""
        return self._layout.size

    @property
    def windows(self) -> list[int]:
        """The numbers of the windows that have rows on some rank."""
        return self._layout.windows

    def solve(self) -> tuple[Array, Array]:
        """Return d: the weights of all windows [K, c], and the unknowns [q] (collective, once).

        Zeros follow where a window has fewer weights than others.
        """
        r = self._rows.residuals
        y, z = self._solved(r)
        for _ in range(_REFINEMENTS):
            more, more_z = self._solved(r - self._times(y, z))
            y, z = y + more, z + more_z
        weights = np.zeros((len(self._strips.owner_of_window), self._columns))
        for k in self._owned():
            basis, part = self._bases[k], y[self._layout.window(k)]
            weights[k, basis.pivots] = solve_triangular(basis.triangle, part, check_finite=False)
        return summed(weights, self._ranks), z

    def predicted(self, weights: Array, unknowns: Array) -> float:
        """Return |r − J d|² over this rank's rows (local)."""
        left = self._rows.residuals - self._rows.by_unknowns @ unknowns
        for k, block in self._rows.blocks.items():
            left[block.rows] -= weights[k, : len(block.columns)] @ block.columns
        return float(left @ left)

    def _owned(self) -> list[int]:
        """Return the windows of this rank's strips that have rows on any rank."""
        owners = self._strips.owner_of_window
        return sorted(k for k in self._bases if owners[k] == self._ranks.rank)

    def _common_bases(self, cutoff: float) -> dict[int, _Basis]:
        """Return the bases of the windows that have rows on this rank, or that it owns."""
        owners = self._strips.owner_of_window
        triangles: list[dict[Any, Array]] = [{} for _ in range(self._ranks.size)]
        for k, block in self._rows.blocks.items():
            triangles[owners[k]][k] = triangle(block.columns)
        received = exchanged(triangles, self._ranks)
        parts: dict[int, list[Array]] = {}
        for each in received:
            for k, factor in each.items():
                parts.setdefault(k, []).append(factor)

        def bases() -> dict[int, _Basis]:
            return {k: _Basis.of(factors, cutoff) for k, factors in parts.items()}

        found = together(self._ranks, bases)
        back = [{k: found[k] for k in each} or None for each in received]
        for bases_of_rank in self._ranks.exchange_objects(back):
            found |= bases_of_rank or {}
        return found

    def _blocks_of_owners(self, common: Any) -> dict[tuple[int, int], Array]:
        """Return Σ over the ranks of Q_kᵀ Q_l for the owner of the strip of k ≥ l."""
        given: list[dict[Any, Array]] = [{} for _ in range(self._ranks.size)]
        owners = self._strips.owner_of_window
        for k, block in self._blocks.items():
            given[owners[k]][k, k] = block.columns @ block.columns.T
        for (k, other), (a, b) in common.items():
            product = self._blocks[k].columns[:, a] @ self._blocks[other].columns[:, b].T
            if self._strips.before(k, other):
                k, other, product = other, k, product.T
            given[owners[k]][k, other] = product
        found: dict[tuple[int, int], Array] = {}
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
        found = np.linalg.lstsq(complement, f - reached.T @ right[:, 0], rcond=None)[0]
        z = np.asarray(found, np.float64)
        return y - reached @ z, z

    def _transposed_times(self, f: Array) -> Array:
        """Return Qᵀ f over the rows of all ranks: [N, k] -> [n, k] (collective)."""
        found = np.zeros((self._layout.size, f.shape[1]))
        for k, block in self._blocks.items():
            found[self._layout.window(k)] = block.columns @ f[block.rows]
        return summed(found, self._ranks)

    def _times(self, y: Array, z: Array) -> Array:
        """Return J d over this rank's rows for coefficients of windows and unknowns (local)."""
        found = self._rows.by_unknowns @ z
        for k, block in self._blocks.items():
            found[block.rows] += y[self._layout.window(k)] @ block.columns
        return found
