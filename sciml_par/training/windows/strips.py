"""The normal equations of windows in strips, by block Cholesky factors over the ranks.

Windows that overlap are in the same strip or in neighbouring ones, so that the matrix is block
tridiagonal:

    D_j y_j + E_{j-1} y_{j-1} + E_jᵀ y_{j+1} = g_j        E_j couples strip j + 1 to strip j

A rank has successive strips, and the first strip of each rank but the first separates the ranks.
Each rank eliminates what lies between its separators, from one end to the other. What remains for
the separators, the Schur complement, is block tridiagonal as well. It is added over the ranks and
solved on each of them (Smith, Bjørstad and Gropp 1996, Domain Decomposition, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sciml_par.errors import TrainingError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.windows.exchange import summed

Array = npt.NDArray[np.float64]

_RIDGE = 1e-13
"""Added to the diagonal, whose entries are about one; refinement takes its effect away."""


@dataclass(frozen=True)
class Chain:
    """Strips of one rank between separators.

    Attributes
    ----------
    diagonals : D_j, [n_j, n_j] each.
    couplings : of a strip to the one before it, [n_j, n_{j-1}] each, one fewer.
    first, last : of the first strip to the separator before it, [n_first, n_s], and of the
        separator behind it to the last strip, [n_s, n_last]; None without such a separator.
    """

    diagonals: list[Array]
    couplings: list[Array]
    first: Array | None
    last: Array | None


class FactoredChain:
    """The Cholesky factors of a chain, which they take the place of, and what they leave."""

    def __init__(self, chain: Chain) -> None:
        # From the separator on, if only one end has one, so that nothing is filled in.
        self._reversed = chain.first is not None and chain.last is None
        if self._reversed:
            chain = _reverse(chain)
        self._lower: list[Array] = []
        self._next: list[Array] = []
        self._before: list[Array] = []
        diagonals, count = list(chain.diagonals), len(chain.diagonals)
        chain.diagonals.clear()  # each is many megabytes, and not needed any more
        diagonal = diagonals.pop(0) if diagonals else None
        fill = chain.first
        behind = [*chain.couplings, chain.last]
        self.of_first: Array | None = None
        self.of_last: Array | None = None
        self.of_both: Array | None = None
        chain.couplings.clear()
        for number in range(count):
            coupling, behind[number] = behind[number], None
            lower = _cholesky(diagonal)
            self._lower.append(lower)
            following = None if coupling is None else _divided(lower, coupling.T)
            del coupling
            if following is not None:
                self._next.append(following)
            if fill is not None:
                before = _divided(lower, fill)
                self._before.append(before)
                taken = before.T @ before
                self.of_first = taken if self.of_first is None else self.of_first + taken
            if diagonals:
                assert following is not None
                diagonal = diagonals.pop(0) - following.T @ following
                fill = None if fill is None else -(following.T @ before)
            elif following is not None:
                self.of_last = following.T @ following
                if fill is not None:
                    self.of_both = following.T @ before

    def forward(self, right: Sequence[Array]) -> tuple[list[Array], Array | None, Array | None]:
        """Return the right-hand sides after elimination, and what first and last lose by it."""
        given = list(right)[::-1] if self._reversed else list(right)
        done: list[Array] = []
        first = last = None
        for number, lower in enumerate(self._lower):
            here = given[number]
            if number:
                here = here - self._next[number - 1].T @ done[-1]
            z = _divided(lower, here)
            done.append(z)
            if self._before:
                taken = self._before[number].T @ z
                first = taken if first is None else first + taken
        if done and len(self._next) == len(self._lower):
            last = self._next[-1].T @ done[-1]
        return done, *((last, None) if self._reversed else (first, last))

    def backward(
        self, done: Sequence[Array], before: Array | None, behind: Array | None
    ) -> list[Array]:
        """Return the solution, from what `forward` returned and that of the separators."""
        if self._reversed:
            before, behind = None, before
        found: list[Array] = []
        following = behind
        for number in reversed(range(len(self._lower))):
            right = done[number]
            if following is not None and number < len(self._next):
                right = right - self._next[number] @ following
            if before is not None and self._before:
                right = right - self._before[number] @ before
            following = solve_triangular(
                self._lower[number], right, lower=True, trans=1, check_finite=False
            )
            found.append(following)
        return found if self._reversed else found[::-1]

    def complement(self) -> tuple[Array | None, Array | None, Array | None]:
        """Return what the separators before and behind lose, and their coupling."""
        if self._reversed:
            return self.of_last, None, None
        return self.of_first, self.of_last, self.of_both


class Separators:
    """The separators of all ranks, on each of them: a chain of n_s rows each.

    `diagonals` and `couplings` are this rank's parts of a sum over the ranks.
    """

    def __init__(
        self, diagonals: Sequence[Array], couplings: Sequence[Array], ranks: Communicator
    ) -> None:
        self._ends = np.cumsum([len(each) for each in diagonals]).astype(int)
        self._ranks = ranks
        parts = [*diagonals, *couplings]
        self._chain: FactoredChain | None = None
        if parts:
            whole = summed(np.concatenate([each.ravel() for each in parts]), ranks)
            cuts = np.cumsum([each.size for each in parts])[:-1]
            pieces = np.split(whole, cuts)
            blocks = [p.reshape(e.shape) for p, e in zip(pieces, parts, strict=True)]
            count = len(diagonals)
            self._chain = FactoredChain(Chain(blocks[:count], blocks[count:], None, None))

    def solve(self, right: Array) -> list[Array]:
        """Return the solution for Σ over the ranks of right-hand sides [Σ n_s, k] (collective)."""
        if self._chain is None:
            return []
        parts = np.split(summed(right, self._ranks), self._ends[:-1])
        done, _, _ = self._chain.forward(parts)
        return self._chain.backward(done, None, None)


def _reverse(chain: Chain) -> Chain:
    """Return the strips in the other order."""
    couplings = [each.T for each in reversed(chain.couplings)]
    last = None if chain.first is None else chain.first.T
    return Chain(chain.diagonals[::-1], couplings, None, last)


def _cholesky(matrix: Array | None) -> Array:
    assert matrix is not None
    matrix[np.diag_indices_from(matrix)] += _RIDGE
    try:
        return np.asarray(cholesky(matrix, lower=True, overwrite_a=True, check_finite=False))
    except LinAlgError:
        raise TrainingError(
            "LeastSquares with Windows: the features of neighbouring windows depend on each other, "
            "or a window has fewer rows than weights. Take more points, fewer features or a "
            "smaller overlap."
        ) from None


def _divided(lower: Array, right: Array) -> Array:
    return np.asarray(solve_triangular(lower, right, lower=True, check_finite=False))
