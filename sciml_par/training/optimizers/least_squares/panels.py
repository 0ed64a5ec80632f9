"""How the columns of a symmetric matrix are divided into panels, and dealt out to ranks."""

from __future__ import annotations

from dataclasses import dataclass

MOST_PANELS = 24
"""Where there are not more ranks: each panel has its own operations in the program."""

_NARROWEST = 64


@dataclass(frozen=True)
class Panels:
    """Panels of neighbouring columns of the triangle i ≥ j of a matrix [p, p].

    Panel k has the columns `first(k)` to `end(k)` and the rows from `first(k)` on. The ranks take
    turns, so that each has short panels and long ones, and work until the last panels.

    Attributes
    ----------
    p : how many columns there are.
    ranks : that share them.
    """

    p: int
    ranks: int

    @property
    def width(self) -> int:
        """Of all panels but the last."""
        # Six for each rank, unless that are too many, or they are too narrow for BLAS.
        most = max(MOST_PANELS, self.ranks)
        narrowest = min(_NARROWEST, _ceil(self.p, self.ranks))
        return max(_ceil(self.p, most), _ceil(self.p, 6 * self.ranks), narrowest)

    @property
    def count(self) -> int:
        """How many panels there are."""
        return _ceil(self.p, self.width)

    def first(self, k: int) -> int:
        """Return the first column of panel k, and its first row."""
        return k * self.width

    def end(self, k: int) -> int:
        """Return the first column after panel k."""
        return min(self.p, (k + 1) * self.width)

    def shape(self, k: int) -> tuple[int, int]:
        """Rows and columns of panel k."""
        return self.p - self.first(k), self.end(k) - self.first(k)

    def owner(self, k: int) -> int:
        """Return the rank that keeps panel k."""
        return k % self.ranks

    def of(self, rank: int) -> list[int]:
        """Return the panels of a rank."""
        return list(range(rank, self.count, self.ranks))

    def most_elements(self) -> int:
        """Of the panels of one rank, over the ranks."""
        return max(
            sum(rows * columns for rows, columns in map(self.shape, self.of(rank)))
            for rank in range(self.ranks)
        )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
