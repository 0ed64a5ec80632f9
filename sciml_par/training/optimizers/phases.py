"""The phases of a training: which optimizer makes how many steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par.errors import InputError
from sciml_par.training.optimizers.convert import as_optimizer
from sciml_par.training.optimizers.optimizer import FirstOrder, Optimizer

DEFAULT_STEPS = 30_000
"""Of optimizers that do not say by `default_steps` how many of theirs are usual."""


@dataclass(frozen=True)
class Phase:
    """Some steps of one optimizer.

    Attributes
    ----------
    optimizer : as it was given.
    steps : how many.
    """

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
        usual = getattr(optimizer, "default_steps", DEFAULT_STEPS)
        return (_phase(optimizer, usual if steps is None else steps),)
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
    return tuple(_phase(*pair) for pair in pairs)


def _phase(optimizer: Any, steps: Any) -> Phase:
    return Phase(as_optimizer(optimizer), checked_integer(steps, "train: steps", least=1))


def of_second_order(phases: Sequence[Phase]) -> bool:
    """Return whether an optimizer can make residuals vanish at the training points alone."""
    return any(getattr(phase.optimizer, "second_order", False) for phase in phases)
