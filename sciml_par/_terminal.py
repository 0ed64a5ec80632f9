"""Whether what is printed is read on a terminal."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_OPEN_MPI = "OMPI_COMM_WORLD_RANK"
"""Open MPI's `mpirun` gives each rank a terminal of its own, wherever what they write goes to."""


def prints_to_terminal() -> bool:
    """Return whether standard output is the user's terminal, and no pipe, file or launcher."""
    return sys.stdout.isatty() and _OPEN_MPI not in os.environ


def console(*, width: int | None = None, highlight: bool = True) -> Console:
    """What prints to standard output, with colours on a terminal."""
    terminal = False if _OPEN_MPI in os.environ else None  # None: it looks itself
    return Console(force_terminal=terminal, width=width, highlight=highlight)
