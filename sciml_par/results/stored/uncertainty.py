"""What the files of a result hold of how well data determine its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.unknowns.unknowns import Unknown, names_of_numbers
from sciml_par.results.linearized import Linearized

Entry = dict[str, Any]
Arrays = Mapping[str, npt.NDArray[Any]]

_NUMBERS = ("rows", "chi_square", "freedom", "degrees", "scale", "dependence", "reason", "seconds")
_MISSING = {"degrees": math.inf}
_OF_UNKNOWN = ("start", "lower", "upper", "scale")


def write_linearized(found: Linearized | None) -> Entry | None:
    """Return the entry in results.json; deviations are for who reads the file."""
    if found is None:
        return None
    deviations = np.sqrt(np.diag(found.covariance))
    return {
        **{name: _plain(getattr(found, name)) for name in _NUMBERS},
        "unknowns": {
            name: {each: _plain(getattr(unknown, each)) for each in _OF_UNKNOWN}
            for name, unknown in found.unknowns.items()
        },
        "parameters": found.parameters.tolist(),
        "shift": found.shift.tolist(),
        "deviations": dict(zip(names_of_numbers(found.unknowns), deviations.tolist(), strict=True)),
    }


def read_linearized(entry: Entry | None, arrays: Arrays, number: int) -> Linearized | None:
    """Return what the entry and weights.npz hold of a member; older files have neither."""
    if entry is None:
        return None
    numbers: dict[str, Any] = {
        name: _MISSING.get(name, math.nan) if entry[name] is None else entry[name]
        for name in _NUMBERS
    }
    return Linearized(
        steps=arrays.get(_key(number), np.empty((0, 0))),
        parameters=np.array(entry["parameters"], np.float64),
        shift=np.array(entry["shift"], np.float64),
        unknowns={name: Unknown(**each) for name, each in entry["unknowns"].items()},
        **numbers,
    )


def arrays_of_linearized(found: Linearized | None, number: int) -> dict[str, npt.NDArray[Any]]:
    """Return what weights.npz holds of a member."""
    return {} if found is None or not found.known else {_key(number): found.steps}


def _key(number: int) -> str:
    return f"steps_{number}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
