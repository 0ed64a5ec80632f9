"""Adam on a flat vector of parameters, and the same with decoupled weight decay."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_fraction, check_not_negative, check_positive
from sciml_par._tensorflow import tf
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.optimizer import FirstOrder
from sciml_par.training.optimizers.schedules import Schedule, take_learning_rate

Tensor = Any
Moments = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Adam(FirstOrder):
    """Adam (Kingma and Ba 2015, algorithm 1, with the step size of its section 2's last remark).

        m ← β₁ m + (1−β₁) g        v ← β₂ v + (1−β₂) g²
        θ ← θ − α √(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε)

    which is what `keras.optimizers.Adam` computes, with its defaults.

    Parameters
    ----------
    learning_rate : α > 0, in units of θ; a number, a `Schedule` or one of Keras.
    beta_1, beta_2 : decay of the moments, in [0, 1), dimensionless.
    epsilon : ε > 0, in units of g.
    """

    learning_rate: float | Schedule = 1e-3
    _: KW_ONLY
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        name = type(self).__name__
        take_learning_rate(self)
        check_fraction(name, beta_1=self.beta_1, beta_2=self.beta_2)
        check_positive(name, epsilon=self.epsilon)

    def start(self, layout: ParameterLayout, parameters: Tensor) -> Moments:
        """Return the moments (m, v), [M, p] each (local)."""
        return tf.zeros_like(parameters), tf.zeros_like(parameters)

    def update(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        gradient: Tensor,
        state: Moments,
        rate: Tensor,
        number: Tensor,
    ) -> tuple[Tensor, Moments]:
        m, v = state
        m = self.beta_1 * m + (1 - self.beta_1) * gradient
        v = self.beta_2 * v + (1 - self.beta_2) * gradient * gradient
        t = tf.cast(number, gradient.dtype)
        # expm1 keeps 1 − βᵗ exact where β is close to 1 and the type is narrow.
        unbias_1 = -tf.math.expm1(t * _log(self.beta_1))
        unbias_2 = -tf.math.expm1(t * _log(self.beta_2))
        unbiased = rate * tf.sqrt(unbias_2) / unbias_1
        change = unbiased * m / (tf.sqrt(v) + self.epsilon)
        return self._decayed(layout, parameters, rate) - change, (m, v)

    def _decayed(self, layout: ParameterLayout, parameters: Tensor, rate: Tensor) -> Tensor:
        """Return the parameters from which the change is subtracted."""
        return parameters


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

        θ ← θ − α λ θ − (the change that `Adam` makes with α)

    for all weights, biases included, which is what `keras.optimizers.AdamW` computes, with its
    defaults. Where some are to be left out, give that one, with its `exclude_from_weight_decay`.
    Unknowns of the problem do not decay.

    Parameters
    ----------
    learning_rate, beta_1, beta_2, epsilon : as for `Adam`.
    weight_decay : λ ≥ 0, dimensionless.
    """

    _: KW_ONLY
    weight_decay: float = 0.004

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(type(self).__name__, weight_decay=self.weight_decay)

    def _decayed(self, layout: ParameterLayout, parameters: Tensor, rate: Tensor) -> Tensor:
        decayed = parameters
        if layout.size_of_unknowns:  # values of the problem's unknowns must not decay
            of_network = [1.0] * layout.size_of_network + [0.0] * layout.size_of_unknowns
            decayed = tf.constant(of_network, parameters.dtype) * parameters
        return parameters - rate * self.weight_decay * decayed


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else -math.inf
