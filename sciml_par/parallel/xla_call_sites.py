"""Which call site a foreign call belongs to, for as long as a graph holds it.

All custom calls have one target, and say by a number which call site they are. XLA never forgets a
target; a number is forgotten with the graphs that hold its call site, and so are the call site's
buffers.
"""

from __future__ import annotations

import itertools
import os

from sciml_par.parallel.graph_lifetime import with_the_graph
from sciml_par.parallel.xla_ffi import Act, Frame, number_attribute


class CallSites:
    """The call sites of compiled programs on one platform (local)."""

    def __init__(self) -> None:
        self._acts: dict[int, Act] = {}

    def __len__(self) -> int:
        return len(self._acts)

    def act(self, frame: Frame) -> None:
        """Do what the call site of this call does."""
        act = self._acts.get(number_attribute(frame))
        if act is None:
            raise RuntimeError(
                "The function that this collective belongs to was deleted, or compiled by another "
                "process: keep the tf.function for as long as it is called, and do not keep "
                "compiled programs from one run to the next."
            )
        act(frame)

    def add(self, number: int, act: Act) -> None:
        """Let calls that say `number` do `act`."""
        self._acts[number] = act

    def discard(self, number: int) -> None:
        """Forget it."""
        self._acts.pop(number, None)


class CallSiteNumbers:
    """Numbers that no other call site of this or another process has (local)."""

    def __init__(self) -> None:
        # A program of another process, kept in a cache of compiled programs, must not find a call
        # site of this one under its number.
        self._numbers = itertools.count(int.from_bytes(os.urandom(7), "little"))

    def take(self, *tables: CallSites) -> int:
        """A number for the graph under construction; when that goes, so it does from `tables`."""
        number = next(self._numbers)
        for table in tables:
            with_the_graph(None, table.discard, number)
        return number
