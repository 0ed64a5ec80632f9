"""How a training is to run, checked once."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from sciml_par.errors import InputError

PRECISIONS = ("float32", "float64")
BEST, LAST = "best", "last"
_RECORDS = 500


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a training; see `train` for their meaning."""

    mode: str
    seed: int
    precision: str
    log_every: int | None
    evaluation_points: int | None
    keep: str

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("keep", self.keep, (BEST, LAST))
        _at_least("seed", self.seed, 0)
        if self.evaluation_points is not None:
            _at_least("evaluation_points", self.evaluation_points, 2)
        if self.log_every is not None:
            _at_least("log_every", self.log_every, 1)

    def steps_between_records(self, steps: int) -> int:
        """Those that are asked for; by default 1, 2 or 5 times a power of ten, for 500 records."""
        if self.log_every is not None:
            return self.log_every
        wanted = max(1, steps // _RECORDS)
        power = 10 ** (len(str(wanted)) - 1)
        return max(power * n for n in (1, 2, 5) if power * n <= wanted)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InputError(
            f"train: expected {name} to be one of {', '.join(allowed)}; got {value!r}."
        )


def _at_least(name: str, value: Any, least: int) -> None:
    try:
        good = operator.index(value) >= least and not isinstance(value, bool)
    except TypeError:
        good = False
    if not good:
        raise InputError(f"train: expected {name} to be an integer ≥ {least}; got {value!r}.")
