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
from sciml_par.training.outcome.together import together
from sciml_par.training.windows.bases import Basis, basis_of
from sciml_par.training.windows.exchange import exchanged, summed
from sciml_par.training.windows.rows import WindowRows
from sciml_par.training.windows.strip_layout import Layout, Strips, pairs_of
from sciml_par.training.windows.strips import Chain, FactoredChain, Separators

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
        cutoff: float,
    ) -> None:
        self._rows, self._ranks, self._columns = rows, ranks, columns
        self._strips = Strips(partition, axis, rows, ranks)
        self._bases = self._common_bases(cutoff)
        self._blocks = {k: (i, self._bases[k].of(a)) for k, (i, a) in rows.blocks.items()}
        self._layout = Layout(self._strips, self._bases)
        blocks = self._blocks_of_owners()
        self._factored, self._separators = self._factors(blocks)
        self._border = self._of_unknowns()

    @property
    def columns_kept(self) -> int:
        """How many columns all windows have that do not depend on others of their window."""
        return self._layout.size

    def solve(self) -> tuple[dict[int, Array], Array]:
        """Return d: the weights of each window [c], and the unknowns [q] (collective)."""
        r = self._rows.residuals
        y, z = self._solved(r)
        for _ in range(_REFINEMENTS):
            more, more_z = self._solved(r - self._times(y, z))
            y, z = y + more, z + more_z
        parts = self._layout.split(y)
        found = {
            k: basis.weights(parts[k], self._columns) for k, basis in sorted(self._bases.items())
        }
        return found, z

    def predicted(self, d: tuple[dict[int, Array], Array]) -> float:
        """Return |r − J d|² over this rank's rows (local)."""
        left = self._rows.residuals - self._rows.by_unknowns @ d[1]
        for k, (i, a) in self._rows.blocks.items():
            left[i] -= a @ d[0][k]
        return float(left @ left)

    @property
    def windows(self) -> list[int]:
        """The numbers of the windows that have rows on some rank."""
        return list(self._bases)

    def _common_bases(self, cutoff: float) -> dict[int, Basis]:
        """Return the bases of all windows that have rows on any rank."""
        own = self._strips.owner_of_window
        triangles: list[dict[Any, Array]] = [{} for _ in range(self._ranks.size)]
        for k, (_, a) in self._rows.blocks.items():
            triangles[own[k]][k] = np.linalg.qr(a, mode="r")
        parts: dict[int, list[Array]] = {}
        for each in exchanged(triangles, self._ranks):
            for k, triangle in each.items():
                parts.setdefault(k, []).append(triangle)

        def bases() -> dict[int, Basis]:
            return {k: basis_of(np.vstack(each), cutoff) for k, each in sorted(parts.items())}

        mine = together(self._ranks, bases)
        given = {("t", k): b.triangle for k, b in mine.items()}
        given |= {("p", k): b.pivots.astype(np.float64) for k, b in mine.items()}
        found: dict[int, Basis] = {}
        for each in exchanged([given] * self._ranks.size, self._ranks):
            for kind, k in each:
                if kind == "t":
                    found[k] = Basis(each[kind, k], each["p", k].astype(int))
        return dict(sorted(found.items()))

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

    def _factors(self, blocks: dict[Any, Array]) -> tuple[FactoredChain, Separators]:
        strips, layout, ranks = self._strips, self._layout, self._ranks
        rank, size = ranks.rank, strips.active
        mine = strips.of_rank(rank)
        diagonals = {j: layout.diagonal(j, blocks) for j in mine}
        # A rank has the coupling of each of its strips to the one before.
        before = {j: layout.coupling(j, blocks) for j in mine if j > 0}
        blocks.clear()
        separators = [strips.of_rank(other)[0] for other in range(1, strips.active)]
        # The last strip of a rank meets the separator that the next rank has.
        handed: list[dict[Any, Array]] = [{} for _ in range(ranks.size)]
        if mine and rank > 0:
            handed[rank - 1] = {"last": before[mine[0]]}
        last = None
        for each in exchanged(handed, ranks):
            last = each.get("last", last)
        inner = mine[1:] if rank > 0 else mine
        first = None
        if rank > 0 and inner:
            first = before[inner[0]]
        own_last = last if inner else None
        chain = Chain(
            [diagonals.pop(j) for j in inner], [before.pop(j) for j in inner[1:]], first, own_last
        )
        factored = together(ranks, lambda: FactoredChain(chain))
        sizes = [layout.size_of_strip(j) for j in separators]
        here = [np.zeros((n, n)) for n in sizes]
        couplings = [np.zeros(shape) for shape in zip(sizes[1:], sizes, strict=False)]
        of_first, of_last, of_both = factored.complement()
        if mine and rank > 0:
            here[rank - 1] += diagonals[mine[0]]
            here[rank - 1] -= 0 if of_first is None else of_first
        if rank < size - 1 and of_last is not None:
            here[rank] -= of_last
        if 0 < rank < size - 1:
            # Without strips between them, two separators meet.
            both = last if not inner else None if of_both is None else -of_both
            couplings[rank - 1] += 0 if both is None else both
        self._separator_strips = separators
        return factored, Separators(here, couplings, ranks)

    def _of_unknowns(self) -> tuple[Array, Array]:
        """Return N⁻¹ F and the Schur complement of the unknowns, for F = Qᵀ ∂r/∂a."""
        f = self._rows.by_unknowns
        q = f.shape[1]
        if not q:
            return np.empty((self._layout.size, 0)), np.empty((0, 0))
        right = self._transposed_times(f)
        reached = self._windows_solved(right)
        whole: Array = summed(f.T @ f, self._ranks)
        whole -= right.T @ reached
        return reached, whole

    def _solved(self, r: Array) -> tuple[Array, Array]:
        """Return the coefficients of the windows [n] and the unknowns [q] for residuals."""
        right = self._transposed_times(r[:, None])
        y = self._windows_solved(right)[:, 0]
        reached, complement = self._border
        if not len(complement):
            return y, np.empty(0)
        f = summed(self._rows.by_unknowns.T @ r, self._ranks)
        z = np.linalg.lstsq(complement, f - reached.T @ right[:, 0], rcond=None)[0].astype(
            np.float64
        )
        return y - reached @ z, z

    def _windows_solved(self, right: Array) -> Array:
        """Return N⁻¹ g for g: [n, k], the same on all ranks (collective)."""
        strips, layout, ranks = self._strips, self._layout, self._ranks
        parts = layout.strips(right)
        mine = strips.of_rank(ranks.rank)
        inner = mine[1:] if ranks.rank > 0 else mine
        done, first, last = self._factored.forward([parts[j] for j in inner])
        whole = [np.zeros_like(parts[j]) for j in self._separator_strips]
        rank, size = ranks.rank, strips.active
        if mine and rank > 0:
            whole[rank - 1] += parts[mine[0]] - (0 if first is None else first)
        if rank < size - 1 and last is not None:
            whole[rank] -= last
        columns = right.shape[1]
        solved = self._separators.solve(np.vstack([np.empty((0, columns)), *whole]))
        before = solved[rank - 1] if mine and rank > 0 else None
        behind = solved[rank] if rank < size - 1 else None
        found = self._factored.backward(done, before, behind)
        answer = np.zeros_like(right)
        for j, each in zip(inner, found, strict=True):
            answer[layout.place(j)] = each
        if before is not None:
            answer[layout.place(mine[0])] = before
        return summed(answer, ranks)

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
