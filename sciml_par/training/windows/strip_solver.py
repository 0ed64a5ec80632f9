"""The normal equations of windows, solved strip by strip over the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.outcome.together import together
from sciml_par.training.windows.exchange import exchanged, summed
from sciml_par.training.windows.strip_layout import Layout, Strips
from sciml_par.training.windows.strips import Chain, FactoredChain, Separators

Array = npt.NDArray[np.float64]


class StripSolver:
    """Solves N y = g by the factors of the strips of each rank and of their separators.

    `blocks` has N_kl for the windows k of this rank's strips and l before them, and is emptied.
    """

    def __init__(
        self, strips: Strips, layout: Layout, blocks: dict[Any, Array], ranks: Communicator
    ) -> None:
        self._strips, self._layout, self._ranks = strips, layout, ranks
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
        self._separator_strips, self._factored = separators, factored
        self._separators = Separators(here, couplings, ranks)

    def solve(self, right: Array) -> Array:
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
