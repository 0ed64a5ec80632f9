"""Standard output: whether it is a terminal, and a console for it."""

from __future__ import annotations

import os
import sys

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
