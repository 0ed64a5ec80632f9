"""The checked settings of a training, and at which steps it is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_flag, checked_integer
from sciml_par.errors import InputError

PRECISIONS = ("float32", "float64")
BEST, LAST = "best", "last"
_RECORDS = 500
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a training; see `train` for their meaning."""

    mode: str
    seed: int
    precision: str
    log_every: int | None
    evaluation_points: int | None
    keep: str
    grow: bool | None = None

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("keep", self.keep, (BEST, LAST))
        check_flag("train", "grow", self.grow, or_none=True)
        for name, least in (("seed", 0), ("evaluation_points", 2), ("log_every", 1)):
            value = getattr(self, name)
            if value is not None or name == "seed":
                checked = checked_integer(value, f"train: {name}", least=least)
                object.__setattr__(self, name, checked)


@dataclass(frozen=True)
class Records:
    """Record the loss at multiples of `every` steps, or by default of 10^k.

    A training may be stopped at any time, so k grows with the steps made. At the end the history is
    thinned to about 500 multiples of 1, 2 or 5 times a power of ten. All depends on the steps
    alone, so that ranks agree, and a resumed training has the records of an uninterrupted one.
    """

    every: int | None

    def spacing(self, step: int) -> int:
        """Return the number of steps between records after `step` steps."""
        return self.every or _power_of_ten(step)

    def longest_chunk(self, step: int) -> int:
        """Return how many steps after `step` have the same spacing."""
        if self.every is not None:
            return _NO_LIMIT
        return 10 * _RECORDS * _power_of_ten(step) - step

    def kept(self, steps: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.bool_]:
        """Return which records the history of a member that ended after `end` steps has."""
        if self.every is not None:
            return np.ones(len(steps), np.bool_)
        power = _power_of_ten(end)
        spacing = max(power * n for n in (1, 2, 5) if power * n <= max(1, end // _RECORDS))
        return steps % spacing == 0


def _power_of_ten(steps: int) -> int:
    """Return the largest power of ten with at least 500 multiples up to this number, or 1."""
    return int(10 ** (len(str(max(1, steps // _RECORDS))) - 1))


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InputError(
            f"train: expected {name} to be one of {', '.join(allowed)}; got {value!r}."
        )
