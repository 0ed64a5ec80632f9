"""The optimizers of programs, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AUTO, ADAM = "auto", "adam"


@dataclass(frozen=True)
class NamedOptimizer:
    """An optimizer on the command line.

    Attributes
    ----------
    name : in `sciml_par.training`; empty if `train` chooses the optimizer.
    steps : the usual number, None if `train` chooses it.
    precision : by default.
    has_rate : whether it has a learning rate.
    """

    name: str
    steps: int | None = None
    precision: str = "float64"
    has_rate: bool = False

    def make(self, rate: float) -> Any:
        """Return the optimizer, as `train` takes it; this imports TensorFlow."""
        if not self.name:
            return AUTO
        from sciml_par import training

        options = {"learning_rate": rate} if self.has_rate else {}
        return getattr(training, self.name)(**options)


OPTIMIZERS = {
    AUTO: NamedOptimizer(""),
    ADAM: NamedOptimizer("Adam", 30_000, "float32", has_rate=True),
    "lbfgs": NamedOptimizer("LBFGS", 10_000),
    "least-squares": NamedOptimizer("LeastSquares", 30),
    "lm": NamedOptimizer("LevenbergMarquardt", 1_000),
    "ssbroyden": NamedOptimizer("SSBroyden", 10_000),
}
"""By name; an entry here is an option of all training programs."""
