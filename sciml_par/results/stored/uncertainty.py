"""What the files of a result hold of how well data determine its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.parts.observed import Observed
from sciml_par.problems.unknowns.unknowns import Unknown, names_of_numbers
from sciml_par.results.linearized import Linearized

Entry = dict[str, Any]
Arrays = Mapping[str, npt.NDArray[Any]]

_NUMBERS = ("rows", "chi_square", "freedom", "degrees", "scale", "dependence", "reason", "seconds")
_MISSING = {"degrees": math.inf}
_OF_OBSERVED = ("x", "u", "noise")
_OF_UNKNOWN = ("start", "lower", "upper", "scale")


def write_linearized(found: Linearized | None) -> Entry | None:
    """Return the entry in results.json; deviations are for who reads the file."""
    if found is None:
        return None
    deviations = np.sqrt(np.diag(found.covariance)).tolist()
    return {
        **{name: _plain(getattr(found, name)) for name in _NUMBERS},
        "unknowns": {
            name: {each: _plain(getattr(unknown, each)) for each in _OF_UNKNOWN}
            for name, unknown in found.unknowns.items()
        },
        "parameters": found.parameters.tolist(),
        "shift": found.shift.tolist(),
        "deviations": dict(
            zip(names_of_numbers(found.unknowns), map(_plain, deviations), strict=True)
        ),
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


def write_observations(found: Sequence[Observed]) -> list[Entry]:
    """Return the entries in results.json, without the arrays."""
    return [{"label": each.label, "components": list(each.components)} for each in found]


def arrays_of_observations(found: Sequence[Observed], number: int) -> dict[str, npt.NDArray[Any]]:
    """Return what predictions.npz holds of a member's observations."""
    return {
        f"{name}_observed_{number}_{k}": getattr(each, name)
        for k, each in enumerate(found)
        for name in _OF_OBSERVED
    }


def read_observations(
    entries: Sequence[Entry], arrays: Arrays, number: int
) -> tuple[Observed, ...]:
    """Return a member's observations, which older files do not hold."""
    found = []
    for k, each in enumerate(entries):
        x, u, noise = (arrays[f"{name}_observed_{number}_{k}"] for name in _OF_OBSERVED)
        found.append(Observed(each["label"], x, u, noise, tuple(each["components"])))
    return tuple(found)


def _key(number: int) -> str:
    return f"steps_{number}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
