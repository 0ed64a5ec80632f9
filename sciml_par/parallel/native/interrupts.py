"""What signals' handlers raise under foreign code, through which nothing of Python's may pass.

There it becomes an error of the foreign program. It is kept here, to be raised again afterwards.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

_kept: list[BaseException] = []


def keep(error: BaseException) -> None:
    """Keep an error, in place of the last one (local)."""
    _kept[:] = [error]


def take() -> BaseException | None:
    """The last that was kept, once (local)."""
    return _kept.pop() if _kept else None


@cache
def keep_unraisable() -> None:
    """Keep also what C code has to give up: PyErr_WriteUnraisable without an object (local)."""
    previous = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.object is None and unraisable.exc_value is not None:
            keep(unraisable.exc_value)
        else:
            previous(unraisable)

    sys.unraisablehook = hook
