"""Which call site a foreign call belongs to, for as long as a graph holds it.

All custom calls have one target, and say by a number which call site they are. XLA never forgets a
target; a number is forgotten with the graphs that hold its call site, and so are the call site's
buffers.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

from sciml_par.parallel.execution.graph_lifetime import with_the_graph
from sciml_par.parallel.execution.xla_call_frame import Act, Frame


class CallSites:
    """The call sites of one target on one platform.

    Attributes
    ----------
    act : does what the call site of a frame does.
    """

    def __init__(self, dispatcher: Callable[[Mapping[int, Any], Act], Act]) -> None:
        self._handlers: dict[int, Callable[..., object]] = {}
        self.act = dispatcher(self._handlers, _refuse)

    def __len__(self) -> int:
        return len(self._handlers)

    def add(self, number: int, handler: Callable[..., object]) -> None:
        """Let calls that say `number` be done by `handler`."""
        self._handlers[number] = handler

    def discard(self, number: int) -> None:
        """Forget it."""
        self._handlers.pop(number, None)


def _refuse(_: Frame) -> None:
    raise RuntimeError(
        "The function that this collective belongs to was deleted, or compiled by another process: "
        "keep the tf.function for as long as it is called, and do not keep compiled programs from "
        "one run to the next."
    )


class CallSiteNumbers:
    """Numbers that no other call site of this or another process has."""

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
