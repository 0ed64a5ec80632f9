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

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sciml_par.errors import TrainingError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.outcome.together import together
from sciml_par.training.windows.exchange import exchanged, summed
from sciml_par.training.windows.strip_layout import Layout, Strips

Array = npt.NDArray[np.float64]

_RIDGE = 1e-13
"""Added to the diagonal, whose entries are about one; refinement takes its effect away."""


class Chain:
    """The Cholesky factor L of strips one after another, and Z = L⁻¹ E for their separators.

    Parameters
    ----------
    diagonals : of which the lower triangle counts, [n_j, n_j]; emptied, as each has many megabytes.
    couplings : of a strip to the one before it, [n_j, n_{j-1}] each, one fewer; emptied.
    sides : E of separators by their numbers, of the last strips, [n_j, n_s] each.
    """

    def __init__(
        self, diagonals: list[Array], couplings: list[Array], sides: Mapping[int, Sequence[Array]]
    ) -> None:
        self._lower: list[Array] = []
        self._next: list[Array] = []
        while diagonals:
            diagonal = diagonals.pop(0)
            if self._lower:
                following = _divided(self._lower[-1], couplings.pop(0).T)
                self._next.append(following)
                diagonal -= following.T @ following
            self._lower.append(_cholesky(diagonal))
        self.sides = {number: self.forward(side) for number, side in sides.items()}

    def forward(self, right: Sequence[Array]) -> list[Array]:
        """Return L⁻¹ b for b that is zero but for the last strips."""
        done: list[Array] = []
        for number, b in enumerate(right, len(self._lower) - len(right)):
            b = b - self._next[number - 1].T @ done[-1] if done else b
            done.append(_divided(self._lower[number], b))
        return done

    def backward(self, z: Sequence[Array]) -> list[Array]:
        """Return L⁻ᵀ z."""
        found: list[Array] = []
        for number in reversed(range(len(z))):
            b = z[number] - self._next[number] @ found[-1] if found else z[number]
            x = solve_triangular(self._lower[number], b, lower=True, trans=1, check_finite=False)
            found.append(x)
        return found[::-1]


class StripSolver:
    """Solves N y = g by the factors of the strips of each rank and of their separators.

    `blocks` has N_kl for the windows k of this rank's strips and l before them, and is emptied.
    """

    def __init__(
        self,
        strips: Strips,
        layout: Layout,
        blocks: dict[tuple[int, int], Array],
        ranks: Communicator,
    ) -> None:
        self._layout, self._ranks = layout, ranks
        rank, mine = ranks.rank, strips.of_rank(ranks.rank)
        diagonals, couplings = layout.matrices(mine, blocks)
        self._separators = [strips.of_rank(other)[0] for other in range(1, strips.active)]
        self._separator = mine[0] if mine and rank > 0 else None
        # The next rank has the coupling of its separator to the last strip of this one.
        handed: list[dict[str, Array]] = [{} for _ in range(ranks.size)]
        if self._separator is not None:
            handed[rank - 1] = {"last": couplings[self._separator]}
        last = next((each["last"] for each in exchanged(handed, ranks) if each), None)
        order = [j for j in mine if j != self._separator]
        inner = [couplings[j] for j in order[1:]]
        sides = {} if last is None or not order else {rank: [last.T]}
        if self._separator is not None and order:
            side, n = couplings[order[0]], layout.width(self._separator)
            if last is None:  # from the separator on, so that nothing is filled in
                order, inner, sides = order[::-1], [e.T for e in inner[::-1]], {rank - 1: [side]}
            else:
                rest = (np.zeros((layout.width(j), n)) for j in order[1:])
                sides[rank - 1] = [side, *rest]
        factors = [diagonals.pop(j) for j in order]
        self._chain = together(ranks, lambda: Chain(factors, inner, sides))
        self._order, found = order, self._chain.sides
        sizes = [layout.width(j) for j in self._separators]
        own = [np.zeros((n, n)) for n in sizes]
        between = [np.zeros(shape) for shape in zip(sizes[1:], sizes, strict=False)]
        if self._separator is not None:
            own[rank - 1] += diagonals[self._separator]
            if last is not None:  # without strips between them, two separators meet
                between[rank - 1] += -found[rank][-1].T @ found[rank - 1][-1] if order else last
        for number, z in found.items():
            own[number] -= sum(each.T @ each for each in z)
        self._of_separators = Chain(_sums(own, ranks), _sums(between, ranks), {})

    def solve(self, right: Array) -> Array:
        """Return N⁻¹ g for g: [n, k], the same on all ranks (collective)."""
        layout, chain, answer = self._layout, self._chain, np.zeros_like(right)
        z = chain.forward([right[layout.strip(j)] for j in self._order])
        left = [np.zeros_like(right[layout.strip(j)]) for j in self._separators]
        if self._separator is not None:
            left[self._ranks.rank - 1] += right[layout.strip(self._separator)]
        for number, side in chain.sides.items():
            left[number] -= sum(a.T @ b for a, b in zip(side, z[-len(side) :], strict=True))
        separators = self._of_separators
        solved = separators.backward(separators.forward(_sums(left, self._ranks)))
        for number, side in chain.sides.items():
            for place, each in enumerate(side, len(z) - len(side)):
                z[place] = z[place] - each @ solved[number]
        for j, y in zip(self._order, chain.backward(z), strict=True):
            answer[layout.strip(j)] = y
        if self._separator is not None:
            answer[layout.strip(self._separator)] = solved[self._ranks.rank - 1]
        return summed(answer, self._ranks)


def _sums(arrays: Sequence[Array], ranks: Communicator) -> list[Array]:
    """Return the sum over the ranks of each array (collective)."""
    if not arrays:
        return []
    whole = summed(np.concatenate([each.ravel() for each in arrays]), ranks)
    parts = np.split(whole, np.cumsum([each.size for each in arrays])[:-1])
    return [part.reshape(each.shape) for part, each in zip(parts, arrays, strict=True)]


def _cholesky(matrix: Array) -> Array:
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
