"""Adam with decoupled weight decay on a flat vector of parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_not_negative
from sciml_par._tensorflow import tf
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.adam import Adam, Moments

Tensor = Any


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

    def update(
        self,
        layout: ParameterLayout,
        parameters: Tensor,
        gradient: Tensor,
        state: Moments,
        rate: Tensor,
        number: Tensor,
    ) -> tuple[Tensor, Moments]:
        change, state = self._change(gradient, state, rate, number)
        decayed = parameters
        if layout.size_of_unknowns:  # values of the problem's unknowns must not decay
            of_network = [1.0] * layout.size_of_network + [0.0] * layout.size_of_unknowns
            decayed = tf.constant(of_network, parameters.dtype) * parameters
        return parameters - rate * self.weight_decay * decayed - change, state
