"""Arrays of points from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError

Arrays = dict[str, npt.NDArray[Any]]

_SUFFIXES = (".csv", ".npy", ".npz")


def read_points(path: str | Path) -> tuple[Arrays, tuple[str, ...] | None]:
    """Return the arrays of a file by their names, and the names of the coordinates if it has them.

    That of a .csv or .npy file is called "x".
    """
    file = Path(path)
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
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a text file: {error}") from error
    rows = [(k + 1, line.split(",")) for k, line in enumerate(lines) if line.strip()]
    names = None
    if rows and not any(_is_number(cell) for cell in rows[0][1]):
        names = tuple(cell.strip().strip('"') for cell in rows.pop(0)[1])
    if not rows:
        raise InputError(f"{file}: it has no rows of numbers")
    width = len(rows[0][1]) if names is None else len(names)
    for number, cells in rows:
        if len(cells) != width or not all(map(_is_number, cells)):
            raise InputError(
                f"{file}, line {number}: expected {width} numbers with a comma between two, got "
                f"{','.join(cells)!r}"
            )
    return {"x": np.array([[float(cell) for cell in cells] for _, cells in rows])}, names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
