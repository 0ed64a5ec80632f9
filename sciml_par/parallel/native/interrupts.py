"""What signals' handlers raise under foreign code, through which nothing of Python's may pass.

There it becomes an error of the foreign program. It is kept here, to be raised again afterwards.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

kept: list[BaseException] = []
"""The last one."""


def keep(error: BaseException) -> None:
    """Keep an error, in place of the last one."""
    kept[:] = [error]


def take() -> BaseException | None:
    """Return the last that was kept, once."""
    return kept.pop() if kept else None


@cache
def keep_unraisable() -> None:
    """Keep also what C code has to give up: PyErr_WriteUnraisable without an object."""
    previous = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.object is None and unraisable.exc_value is not None:
            keep(unraisable.exc_value)
        else:
            previous(unraisable)

    sys.unraisablehook = hook
