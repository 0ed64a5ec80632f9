"""RMSprop on a flat vector of parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_flag, check_fraction, check_positive
from sciml_par._tensorflow import tf
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.optimizer import FirstOrder
from sciml_par.training.optimizers.schedules import Schedule, take_learning_rate

Tensor = Any
State = dict[str, Tensor]


@dataclass(frozen=True)
class RMSprop(FirstOrder):
    """RMSprop (Tieleman and Hinton 2012), also centred and with momentum (Graves 2013, eq. 38–45).

        v ← ρ v + (1−ρ) g²            a ← ρ a + (1−ρ) g
        h = α g / √(v + ε);           with `centered` h = α g / √(v − a² + ε)
        θ ← θ − h;                    with momentum  b ← μ b + h,  θ ← θ − b

    which is what `keras.optimizers.RMSprop` computes, with its defaults.

    Parameters
    ----------
    learning_rate : α > 0, in units of θ; a number, a `Schedule` or one of Keras.
    rho : ρ in [0, 1), dimensionless.
    momentum : μ in [0, 1), dimensionless.
    epsilon : ε > 0, in units of g².
    centered : divide by the deviation of the gradient, not by its root mean square.
    """

    learning_rate: float | Schedule = 1e-3
    _: KW_ONLY
    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7
    centered: bool = False

    def __post_init__(self) -> None:
        take_learning_rate(self)
        check_fraction("RMSprop", rho=self.rho, momentum=self.momentum)
        check_positive("RMSprop", epsilon=self.epsilon)
        check_flag("RMSprop", "centered", self.centered)

    def start(self, layout: ParameterLayout, parameters: Tensor) -> State:
        """Return averages of g² and g, and the sum of changes, [M, p] each, if needed (local)."""
        names = ["square", *["mean"] * self.centered, *["change"] * bool(self.momentum)]
        return {name: tf.zeros_like(parameters) for name in names}

    def update(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        gradient: Tensor,
        state: State,
        rate: Tensor,
        number: Tensor,
    ) -> tuple[Tensor, State]:
        square = self.rho * state["square"] + (1 - self.rho) * gradient * gradient
        new, variance = {"square": square}, square
        if self.centered:
            new["mean"] = self.rho * state["mean"] + (1 - self.rho) * gradient
            # Rounding must not make it negative where all gradients are alike.
            variance = tf.nn.relu(square - new["mean"] * new["mean"])
        change = rate * gradient / tf.sqrt(variance + self.epsilon)
        if self.momentum:
            change = new["change"] = self.momentum * state["change"] + change
        return parameters - change, new
