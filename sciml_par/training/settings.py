"""How a training is to run, checked once."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from sciml_par.errors import InputError

MODES = ("data", "ensemble")
PRECISIONS = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a training; see `train` for their meaning."""

    mode: str
    steps: int
    members: int
    seed: int
    precision: str
    log_every: int
    evaluation_points: int

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("precision", self.precision, PRECISIONS)
        for name, least in (
            ("steps", 1),
            ("members", 1),
            ("seed", 0),
            ("log_every", 1),
            ("evaluation_points", 2),
        ):
            _at_least(name, getattr(self, name), least)
        if self.mode == "data" and self.members != 1:
            raise InputError(
                f"train: mode 'data' trains one model on all ranks; got members={self.members}. "
                f"Use mode='ensemble' for several models."
            )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
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
