"""What the ranks of a group have agreed on.

A mismatch is found by comparing signatures, and comparing them each time would double the cost of a
short collective. So a group remembers the signatures on which its ranks agree, wherever in the
program they agreed: a rank that traces a function again, alone, asks for nothing new and waits
for nobody.
"""

from __future__ import annotations

from typing import Any

from sciml_par.parallel.native.layout import Group

MOST_SIGNATURES = 1 << 16
"""How many signatures are remembered. A program that names its collectives by the step would
otherwise fill the memory."""


class Ledger:
    """The signatures that the ranks of one group have agreed on.

    Parameters
    ----------
    words : the group's record, which machine code reads.
    """

    __slots__ = ("_digests", "_words", "generation")

    def __init__(self, words: Any) -> None:
        self._words = words
        self._digests: set[bytes] = set()
        self.generation = 0

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        """Remember a signature on which all ranks have just agreed."""
        if len(self._digests) >= MOST_SIGNATURES:
            self.clear()
        self._digests.add(digest)

    def clear(self) -> None:
        """Forget all agreements; to be done at the same collective on all ranks."""
        self._digests.clear()
        self.generation += 1
        self._words[Group.GENERATION] = self.generation + 1
