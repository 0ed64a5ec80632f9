"""Arrays of points from files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._files import checked_path
from sciml_par.errors import InputError

Arrays = dict[str, npt.NDArray[Any]]

_SUFFIXES = (".csv", ".npy", ".npz")


def read_points(path: str | Path) -> tuple[Arrays, tuple[str, ...] | None]:
    """Return the arrays of a file by their names, and the names of the coordinates if it has them.

    That of a .csv or .npy file is called "x".
    """
    file = checked_path(path, "points")
    if file.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"{file}: points are read from files that end in {', '.join(_SUFFIXES)}; save them "
            f"with numpy.save, or as a table with a comma between two numbers"
        )
    if not file.is_file():
        raise InputError(f"{file}: there is no such file (in {Path.cwd()})")
    if file.suffix.lower() == ".csv":
        return _of_table(file)
    try:
        content = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{file}: NumPy cannot read it: {error}") from error
    if isinstance(content, np.ndarray):
        return {"x": content}, None
    with content:
        if "x" not in content:
            raise InputError(
                f"{file}: expected an array 'x', and where they are known 'boundary' and "
                f"'normals'; it has {', '.join(map(repr, content)) or 'none'}"
            )
        known = [name for name in ("x", "boundary", "normals") if name in content]
        return {name: content[name] for name in known}, None


def _of_table(file: Path) -> tuple[Arrays, tuple[str, ...] | None]:
    """Return a table of numbers, with or without a line of names."""
    try:
        first, *_ = [*filter(str.strip, file.read_text(encoding="utf-8-sig").splitlines()), ""]
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a text file: {error}") from error
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    names = None if any(map(_is_number, cells)) else tuple(cells)
    try:
        with warnings.catch_warnings(action="error"):  # NumPy warns of a file without rows
            table = np.loadtxt(
                file, delimiter=",", ndmin=2, skiprows=int(names is not None), encoding="utf-8-sig"
            )
    except (ValueError, UserWarning) as error:
        raise InputError(
            f"{file}: expected rows of numbers, separated by commas: {error}"
        ) from None
    if names is not None and len(names) != table.shape[1]:
        raise InputError(f"{file}: expected {len(names)} numbers in a row, for {', '.join(names)}")
    return {"x": table}, names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
