"""Errors that signals' handlers raise under foreign code, kept to be raised again afterwards.

An exception cannot pass through foreign code: there it becomes an error of the foreign program.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

kept: list[BaseException] = []
"""The last error, if any."""


def keep(error: BaseException) -> None:
    """Keep an error in place of the last one."""
    kept[:] = [error]


def take() -> BaseException | None:
    """Return the last error, once."""
    return kept.pop() if kept else None


@cache
def keep_unraisable() -> None:
    """Keep the errors that C code reports by PyErr_WriteUnraisable without an object, too."""
    previous = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.object is None and unraisable.exc_value is not None:
            keep(unraisable.exc_value)
        else:
            previous(unraisable)

    sys.unraisablehook = hook
