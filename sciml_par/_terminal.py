"""Standard output: whether it is a terminal or a notebook, and what shows lines there."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console

_OPEN_MPI = "OMPI_COMM_WORLD_RANK"
"""Open MPI's `mpirun` gives each rank a terminal, wherever the output goes."""


def prints_to_terminal() -> bool:
    """Return whether standard output is the user's terminal, and no pipe, file or launcher."""
    return sys.stdout.isatty() and _OPEN_MPI not in os.environ


def console(*, width: int | None = None, highlight: bool = True) -> Console:
    """Return a console on standard output, with colours on a terminal."""
    terminal = False if _OPEN_MPI in os.environ else None  # None: it looks itself
    return Console(force_terminal=terminal, width=width, highlight=highlight)


class CellLine:
    """One line of a notebook's cell, which another text replaces."""

    def __init__(self, display: Any) -> None:
        self._display, self._shown = display, None

    @classmethod
    def of_notebook(cls) -> CellLine | None:
        """Return a line if this process runs a notebook; None otherwise."""
        ipython: Any = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        return cls(ipython.display.display) if hasattr(shell, "kernel") else None

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        data = {"text/plain": text}
        if self._shown is None:
            self._shown = self._display(data, raw=True, display_id=True)
        else:
            self._shown.update(data, raw=True)
