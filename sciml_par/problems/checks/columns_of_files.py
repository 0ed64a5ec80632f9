"""Numbers from the columns of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._files import checked_path
from sciml_par._optional import needed
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray

_NAMED = 5


def read_columns(
    path: str | Path, *, where: str, **wanted: Any
) -> tuple[FloatArray, FloatArray, Any]:
    """Return points [n, d], values [n, c] and their deviations; see `Observations.from_file`."""
    try:
        return _columns(checked_path(path, "path"), **wanted)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _columns(
    file: Path,
    *,
    x: str | Sequence[str],
    u: str | Sequence[str],
    noise: Any = None,
    units: Mapping[str, float] | None,
    missing: str = "error",
) -> tuple[FloatArray, FloatArray, Any]:
    if missing not in ("error", "drop"):
        raise InputError(f"expected missing to be 'error' or 'drop'; got {missing!r}.")
    groups = {"x": _names(x, "x"), "u": _names(u, "u")}
    table = _table(file, groups["x"], groups["u"])
    groups["noise"] = _columns_of_noise(noise, table)
    chosen = list(dict.fromkeys(name for names in groups.values() for name in names))
    factors = _factors(units, chosen)
    for name in chosen:
        if name not in table.columns:
            raise InputError(
                f"{file.name} has no column {name!r}; it has "
                f"{', '.join(repr(str(each)) for each in table.columns) or 'none'}."
            )
    numbers = {name: _numbers(table[name], name, file) * factors.get(name, 1.0) for name in chosen}
    whole = _complete(numbers, file, missing)
    points, values, deviations = (
        np.stack([numbers[name][whole] for name in names], axis=1) if names else None
        for names in groups.values()
    )
    assert points is not None and values is not None
    return points, values, noise if deviations is None else deviations


def _table(file: Path, x: list[str], u: list[str]) -> Any:
    """Read the file as a pandas.DataFrame."""
    pandas = needed("pandas", "tables")
    readers: dict[str, Callable[[Path], Any]] = {
        ".csv": pandas.read_csv,
        ".tsv": lambda file: pandas.read_csv(file, sep="\t"),
        ".txt": lambda file: pandas.read_csv(file, sep=r"\s+"),
        ".parquet": pandas.read_parquet,
        ".nc": _netcdf,
        ".npz": lambda file: _arrays(file, x, u),
    }
    if file.suffix.lower() not in readers:
        raise InputError(
            f"expected a file with the ending {', '.join(readers)}; got {file.name!r}."
        )
    try:
        return readers[file.suffix.lower()](file)
    except InputError:
        raise
    except Exception as error:  # of many kinds
        raise InputError(f"cannot read {file}: {one_line(error)}") from None


def _netcdf(file: Path) -> Any:
    with needed("xarray", ".nc files").open_dataset(file) as data:
        without = [dimension for dimension in data.dims if dimension not in data.coords]
        return data.to_dataframe().reset_index().drop(columns=without)


def _arrays(file: Path, x: list[str], u: list[str]) -> Any:
    """Return arrays as a table: columns, or values [n_1, …, n_d] over coordinates x_i: [n_i]."""
    with np.load(file, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    chosen = [name for name in (*x, *u) if name in arrays]
    if len({arrays[name].shape for name in chosen}) > 1:
        axes = [name for name in x if name in arrays]
        spread = np.meshgrid(*(arrays[name] for name in axes), indexing="ij")
        arrays |= dict(zip(axes, spread, strict=True))
    shape = arrays[chosen[0]].shape if chosen else ()
    for name in chosen:
        if arrays[name].shape != shape:
            raise InputError(
                f"the array {name!r} of {file.name} has the shape {list(arrays[name].shape)}; "
                f"expected {list(shape)}, a value for each combination of {', '.join(x)} in this "
                f"order."
            )
    alike = {name: each.ravel() for name, each in arrays.items() if each.shape == shape}
    return needed("pandas", "tables").DataFrame(alike)


def _names(given: Any, argument: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(np.atleast_1d(np.array(given, object)))
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"expected {argument} to be names of columns, as {argument}=['x', 't']; got {given!r}."
        )
    return names


def _columns_of_noise(noise: Any, table: Any) -> list[str]:
    """Return the columns with deviations: none where noise is a number, or "unknown"."""
    if isinstance(noise, str):
        return [] if noise == "unknown" and noise not in table.columns else [noise]
    several = isinstance(noise, Sequence) and len(noise) > 0
    return list(noise) if several and all(isinstance(each, str) for each in noise) else []


def _factors(units: Mapping[str, float] | None, chosen: Sequence[str]) -> dict[str, float]:
    found = dict(units or {})
    for name, factor in found.items():
        if name not in chosen:
            raise InputError(
                f"units has the column {name!r}, which is not read; these are: "
                f"{', '.join(map(repr, chosen))}."
            )
        is_number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
        if not is_number or not np.isfinite(factor) or factor == 0:
            raise InputError(
                f"expected units to be the factors by which columns are multiplied, as "
                f"{{{name!r}: 3600}} for hours in seconds; got {factor!r}."
            )
    return found


def _numbers(column: Any, name: str, file: Path) -> FloatArray:
    """Return a column as numbers, NaN where a value is missing."""
    pandas = needed("pandas", "tables")
    if column.dtype.kind in "mMc":
        raise InputError(
            f"the column {name!r} of {file.name} has dates, durations or complex numbers; expected "
            f"real numbers, as the seconds since a date."
        )
    found = pandas.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    text = np.flatnonzero(np.isnan(found) & column.notna().to_numpy())
    if len(text):
        raise InputError(
            f"the column {name!r} of {file.name} has the value "
            f"{column.iloc[text[0]]!r} in row {text[0] + 1}; expected a number."
        )
    return np.asarray(found)


def _complete(numbers: Mapping[str, FloatArray], file: Path, missing: str) -> BoolArray:
    """Return the rows without missing values."""
    whole = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
    rows = np.flatnonzero(~whole) + 1
    if len(rows) and missing == "error":
        name = next(n for n, values in numbers.items() if not np.isfinite(values[rows[0] - 1]))
        named = ", ".join(map(str, rows[:_NAMED]))
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        raise InputError(
            f"values are missing or infinite in {file.name}, in row {named}{more} (the "
            f"first of them in the column {name!r}; row 1 is the first with values). "
            f"missing='drop' leaves these rows out."
        )
    if not whole.any():
        raise InputError(f"{file.name} has no row with all values.")
    return np.asarray(whole)
