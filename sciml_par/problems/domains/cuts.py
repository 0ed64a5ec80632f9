"""The inner times at which an interval of time is cut into slabs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import is_integer
from sciml_par.errors import InputError


def cuts_between(initial: float, final: float, slabs: Any, owner: str) -> tuple[float, ...]:
    """Return the inner times of a number of equal slabs, or those that are given."""
    what = f"{owner}: slabs must be a number of slabs ≥ 1, or increasing times between {initial:g}"
    if is_integer(slabs):
        if slabs < 1:
            raise InputError(f"{what} and {final:g}; got {slabs!r}")
        return tuple(np.linspace(initial, final, int(slabs) + 1)[1:-1].tolist())
    try:
        times = np.asarray(slabs, np.float64)
    except (TypeError, ValueError):
        times = np.empty(())
    if isinstance(slabs, str | bool) or times.ndim != 1:
        raise InputError(f"{what} and {final:g}; got {slabs!r}")
    if not np.all(np.diff([initial, *times, final]) > 0):
        raise InputError(f"{what} and {final:g} without these two; got {times.tolist()}")
    return tuple(times.tolist())
