"""Measured values from the columns of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._optional import needed
from sciml_par._text import one_line
from sciml_par.errors import InputError

Array = npt.NDArray[np.float64]

_WHERE = "Observations.from_file"
_NAMED = 5


def read_columns(
    path: str | Path,
    *,
    x: str | Sequence[str],
    u: str | Sequence[str],
    noise: Any,
    units: Mapping[str, float] | None,
    missing: str,
) -> tuple[Array, Array, Any]:
    """Return points [n, d], values [n, c] and their deviations; see `Observations.from_file`."""
    file = Path(path)
    if missing not in ("error", "drop"):
        raise InputError(f"{_WHERE}: expected missing to be 'error' or 'drop'; got {missing!r}.")
    table = _table(file)
    groups = {"x": _names(x, "x"), "u": _names(u, "u"), "noise": _columns_of_noise(noise, table)}
    chosen = list(dict.fromkeys(name for names in groups.values() for name in names))
    factors = _factors(units, chosen)
    for name in chosen:
        if name not in table.columns:
            raise InputError(
                f"{_WHERE}: {file.name} has no column {name!r}; it has "
                f"{', '.join(repr(str(each)) for each in table.columns)}."
            )
    numbers = {name: _numbers(table[name], name, file) * factors.get(name, 1.0) for name in chosen}
    whole = _complete(numbers, file, missing)
    points, values, deviations = (
        np.stack([numbers[name][whole] for name in names], axis=1) if names else None
        for names in groups.values()
    )
    assert points is not None and values is not None
    return points, values, noise if deviations is None else deviations


def _table(file: Path) -> Any:
    """Read the file as a pandas.DataFrame."""
    pandas = needed("pandas", _WHERE)
    readers: dict[str, Callable[[Path], Any]] = {
        ".csv": pandas.read_csv,
        ".tsv": lambda file: pandas.read_csv(file, sep="\t"),
        ".txt": lambda file: pandas.read_csv(file, sep=r"\s+"),
        ".parquet": pandas.read_parquet,
        ".nc": _netcdf,
    }
    if file.suffix.lower() not in readers:
        raise InputError(
            f"{_WHERE}: expected a file with the ending {', '.join(readers)}; got {file.name!r}."
        )
    try:
        return readers[file.suffix.lower()](file)
    except InputError:
        raise
    except Exception as error:  # of many kinds
        raise InputError(f"{_WHERE}: cannot read {file}: {one_line(error)}") from None


def _netcdf(file: Path) -> Any:
    with needed("xarray", _WHERE).open_dataset(file) as data:
        return data.to_dataframe().reset_index()


def _names(given: Any, argument: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(np.atleast_1d(np.array(given, object)))
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{_WHERE}: expected {argument} to be names of columns, as {argument}=['x', 't']; got "
            f"{given!r}."
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
                f"{_WHERE}: units has the column {name!r}, which is none of those that are read: "
                f"{', '.join(map(repr, chosen))}."
            )
        is_number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
        if not is_number or not np.isfinite(factor) or factor == 0:
            raise InputError(
                f"{_WHERE}: expected units to be the factors by which columns are multiplied, as "
                f"{{{name!r}: 3600}} for hours in seconds; got {factor!r}."
            )
    return found


def _numbers(column: Any, name: str, file: Path) -> Array:
    """Return a column as numbers, NaN where a value is missing."""
    pandas = needed("pandas", _WHERE)
    found = pandas.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    text = np.flatnonzero(np.isnan(found) & column.notna().to_numpy())
    if len(text):
        raise InputError(
            f"{_WHERE}: the column {name!r} of {file.name} has the value "
            f"{column.iloc[text[0]]!r} in row {text[0] + 1}; expected a number."
        )
    return np.asarray(found)


def _complete(numbers: Mapping[str, Array], file: Path, missing: str) -> npt.NDArray[np.bool_]:
    """Return the rows without missing values."""
    whole = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
    rows = np.flatnonzero(~whole) + 1
    if len(rows) and missing == "error":
        name = next(n for n, values in numbers.items() if not np.isfinite(values[rows[0] - 1]))
        named = ", ".join(map(str, rows[:_NAMED]))
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        raise InputError(
            f"{_WHERE}: values are missing in {file.name}, in row {named}{more} (the first of "
            f"them in the column {name!r}; row 1 is the first with values). missing='drop' leaves "
            f"these rows out."
        )
    if not whole.any():
        raise InputError(f"{_WHERE}: {file.name} has no row with all values.")
    return np.asarray(whole)
