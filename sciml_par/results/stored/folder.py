"""The folder of a run's results: made, tried out, and never another run's by accident."""

from __future__ import annotations

import contextlib
import os
import tempfile
from itertools import count
from pathlib import Path

from sciml_par.errors import OutputError

RESULTS = "results.json"
CHECKPOINT = "checkpoint"
"""Prefix of the files from which a training can continue."""


def claim_folder(directory: Path, *, overwrite: bool) -> Path:
    """Create `directory` and check that it can be written."""
    if not overwrite and any(directory.glob(f"{CHECKPOINT}*.npz")):
        raise OutputError(
            f"{directory} holds the checkpoint of another run, which stays as it is. Resume that "
            f"run, name another folder, or ask for overwriting."
        )
    if (directory / RESULTS).exists() and not overwrite:
        raise OutputError(
            f"{directory} holds the results of another run, which stay as they are. Name another "
            f"folder, or ask for overwriting."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (OSError, ValueError) as error:  # a character that no file's name may have
        raise _cannot_write(directory, error) from None
    return directory


def claim_numbered_folder(directory: Path) -> Path:
    """Create `directory`, or the first of directory-2, directory-3, … that does not exist."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            candidate = (
                directory if number == 1 else (directory.with_name(f"{directory.name}-{number}"))
            )
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()
                return candidate
    except OSError as error:
        raise _cannot_write(directory, error) from None
    raise AssertionError("count() does not end")


def _cannot_write(directory: Path, error: Exception) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(
        f"cannot write to the folder {directory} ({reason}, as user {os.getuid()} in "
        f"{Path.cwd()}). Name a folder that can be written."
    )
