"""Lines on standard error that stay whole when several ranks or threads write at once."""

from __future__ import annotations

import contextlib
import os


def write_error(message: str) -> None:
    """Write a line to standard error in one piece, so that ranks do not cut into each other."""
    # A program may have closed it; the end of the job must continue all the same.
    with contextlib.suppress(OSError):
        os.write(2, f"sciml_par: {message}\n".encode(errors="backslashreplace"))
