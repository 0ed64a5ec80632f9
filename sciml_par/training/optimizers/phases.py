"""The phases of a training: which optimizer makes how many steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.optimizers.convert import as_optimizer
from sciml_par.training.optimizers.optimizer import FirstOrder, Optimizer
from sciml_par.training.optimizers.schedules import as_schedule


@dataclass(frozen=True)
class Phase:
    """Some steps of one optimizer, as it was given."""

    optimizer: Optimizer
    steps: int

    @property
    def program(self) -> Optimizer:
        """The optimizer that is compiled: of those with a constant learning rate that with 1.

        The loop multiplies it by `rate`, so that one compiled loop serves all constant rates.
        """
        given: Any = self.optimizer
        return given if self.rate == 1.0 else replace(given, learning_rate=1.0)

    @property
    def rate(self) -> float:
        """What the learning rate of `program` is to be multiplied by."""
        given: Any = getattr(self.optimizer, "learning_rate", None)
        constant = isinstance(self.optimizer, FirstOrder) and isinstance(given, float | int)
        return float(given) if constant else 1.0


def as_phases(optimizer: Any, steps: int | None, phases: Sequence[Any] | None) -> tuple[Phase, ...]:
    """Return the phases that are asked for, by one optimizer and its steps, or as pairs."""
    if phases is None:
        taken = as_optimizer(optimizer)
        return _phases(taken, taken.default_steps if steps is None else steps)
    if optimizer is not None or steps is not None:
        raise InputError(
            "train: give phases=[(optimizer, steps), …], or optimizer= and steps=, not both."
        )
    pairs = list(phases) if isinstance(phases, list | tuple) else [phases]
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise InputError(
            f"train: expected phases to be a list of pairs (optimizer, steps), as "
            f"[(Adam(1e-3), 5000), (Adam(1e-4), 2000)]; got {phases!r}."
        )
    return tuple(chain.from_iterable(_phases(*pair) for pair in pairs))


def _phases(optimizer: Any, steps: Any) -> tuple[Phase, ...]:
    taken, count = as_optimizer(optimizer), checked_integer(steps, "train: steps", least=1)
    return tuple(Phase(*each) for each in taken.in_phases(count))


def initial_rate(optimizer: Any) -> float:
    """Return the learning rate of the first step, of which members' rates are multiples."""
    rate = getattr(optimizer, "learning_rate", None)
    if rate is None:
        rate = getattr(optimizer, "config", {}).get("learning_rate")
    if rate is None:
        raise InputError(
            f"Ensemble: learning_rates need an optimizer with a learning rate, which "
            f"{type(optimizer).__name__} has not."
        )
    return float(as_schedule(rate)(tf.constant(0), tf.float64))
