"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sciml_par.errors import InputError, OutputError


def checked_path(path: Any, what: str) -> Path:
    """Return a path that a user passes; raise for anything else."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"{what}: expected a path, as 'runs/heat'; got {path!r}.")
    return Path(path)


def draft_of(path: Path) -> Path:
    """Return the hidden file next to `path` that holds its content until it is complete."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Put a file in place in one piece, so that a reader never sees half of it."""
    draft = draft_of(path)
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def put_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Put a file in place in one piece; raise `OutputError` if that fails."""
    try:
        write_whole(path, write)
    except OSError as error:
        raise OutputError(f"cannot write the file {path}: {error.strerror or error}.") from None


def write_text(path: Path, text: str) -> None:
    """Put a file of text, in UTF-8, in place in one piece; raise `OutputError` if that fails."""
    put_file(path, lambda draft: draft.write_text(text, encoding="utf-8"))
