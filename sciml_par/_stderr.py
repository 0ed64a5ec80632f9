"""Lines on standard error that stay whole when several ranks or threads write at once."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator


def write_error(message: str) -> None:
    """Write a line to standard error in one piece, so that ranks do not cut into each other."""
    # A program may have closed it; the end of the job must continue all the same.
    with contextlib.suppress(OSError):
        os.write(2, f"sciml_par: {message}\n".encode(errors="backslashreplace"))


class ThreadErrors:
    """The errors of a background thread of this rank: each is told once, and it continues."""

    def __init__(self, thread: str, rank: int, tell: Callable[[str], None]) -> None:
        self._thread = thread
        self._rank = rank
        self._tell = tell
        self._told: set[tuple[str, str, int | None]] = set()

    @contextlib.contextmanager
    def told_once(self) -> Iterator[None]:
        """Report an error inside, the first time that it comes from its place."""
        try:
            yield
        except Exception as error:  # whatever it is, the thread is needed again in a moment
            where = traceback.extract_tb(error.__traceback__)[-1]
            # Its text may differ each time.
            key = (type(error).__name__, where.filename, where.lineno)
            if key not in self._told:
                self._told.add(key)
                self._tell(
                    f"warning: {self._thread} of rank {self._rank} met {type(error).__name__}: "
                    f"{error} ({where.filename}, line {where.lineno}). It continues, and does "
                    f"not report this again."
                )
