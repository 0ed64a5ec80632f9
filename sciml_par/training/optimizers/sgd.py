"""Gradient descent with momentum on a flat vector of parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_flag, check_fraction
from sciml_par._tensorflow import tf
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.optimizer import FirstOrder
from sciml_par.training.optimizers.schedules import Schedule, take_learning_rate

Tensor = Any
State = tuple[Tensor, ...]


@dataclass(frozen=True)
class SGD(FirstOrder):
    """Gradient descent, with classical or Nesterov's momentum (Sutskever et al. 2013, section 2).

        v ← μ v − α g
        θ ← θ + v;  with `nesterov` θ ← θ + μ v − α g

    which is what `keras.optimizers.SGD` computes, with its defaults. The gradient is that of all
    points, or of a minibatch where the training has minibatches.

    Parameters
    ----------
    learning_rate : α > 0, in units of θ / g; a number, a `Schedule` or one of Keras.
    momentum : μ in [0, 1), dimensionless.
    nesterov : take the gradient as that of the place where momentum leads.
    """

    learning_rate: float | Schedule = 0.01
    _: KW_ONLY
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        take_learning_rate(self)
        check_fraction("SGD", momentum=self.momentum)
        check_flag("SGD", "nesterov", self.nesterov)

    def start(self, layout: ParameterLayout, parameters: Tensor) -> State:
        """Return the velocity v, [M, p]; nothing without momentum (local)."""
        return (tf.zeros_like(parameters),) if self.momentum else ()

    def update(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        gradient: Tensor,
        state: State,
        rate: Tensor,
        number: Tensor,
    ) -> tuple[Tensor, State]:
        change = rate * gradient
        if not self.momentum:
            return parameters - change, ()
        velocity = self.momentum * state[0] - change
        move = self.momentum * velocity - change if self.nesterov else velocity
        return parameters + move, (velocity,)
