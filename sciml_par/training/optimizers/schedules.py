"""Learning rates that change with the steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

Tensor = Any


class Schedule(Protocol):
    """A learning rate as a function of the number of steps that a phase has made."""

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        """The rate of the update after `step` updates, a scalar of this type (local)."""


@dataclass(frozen=True)
class Constant:
    """The same rate in every step."""

    value: float

    def __post_init__(self) -> None:
        if not (self.value > 0 and math.isfinite(self.value)):
            raise InputError(f"learning_rate: expected a number > 0; got {self.value}.")

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        """See `Schedule`."""
        return tf.constant(self.value, dtype)


def as_schedule(rate: float | Schedule) -> Schedule:
    """A schedule as it is, a number as a constant one."""
    return rate if callable(rate) else Constant(float(rate))


def initial_rate(optimizer: Any) -> float:
    """The learning rate of an optimizer's first step (local)."""
    return float(as_schedule(optimizer.learning_rate)(tf.constant(0), tf.float64))
