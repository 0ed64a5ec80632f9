"""The optimizers of programs, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

AUTO, ADAM = "auto", "adam"


@dataclass(frozen=True)
class NamedOptimizer:
    """An optimizer on the command line.

    `make` gets the learning rate, which it may ignore, and imports TensorFlow. `steps` is the usual
    number of steps, None if `train` chooses it.
    """

    make: Callable[[float], Any]
    steps: int | None
    precision: str
    has_rate: bool


def _of_training(name: str) -> Callable[[float], Any]:
    """Return a function that makes the optimizer without its learning rate."""

    def make(rate: float) -> Any:
        from sciml_par import training

        return getattr(training, name)()

    return make


def _adam(rate: float) -> Any:
    from sciml_par.training import Adam

    return Adam(learning_rate=rate)


OPTIMIZERS = {
    AUTO: NamedOptimizer(lambda rate: AUTO, None, "float64", False),
    ADAM: NamedOptimizer(_adam, 30_000, "float32", True),
    "lbfgs": NamedOptimizer(_of_training("LBFGS"), 10_000, "float64", False),
    "least-squares": NamedOptimizer(_of_training("LeastSquares"), 30, "float64", False),
    "lm": NamedOptimizer(_of_training("LevenbergMarquardt"), 1_000, "float64", False),
    "ssbroyden": NamedOptimizer(_of_training("SSBroyden"), 10_000, "float64", False),
}
"""By name; an entry here is an option of all training programs."""
