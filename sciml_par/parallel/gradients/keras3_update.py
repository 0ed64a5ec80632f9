"""How the optimizers of Keras 3 update by all ranks' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par.errors import InputError
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.distributed_update import THE_OTHER_WAY_ROUND, DistributedUpdate
from sciml_par.parallel.gradients.reduction import Gradient


class Keras3Update(DistributedUpdate):
    """What makes the gradients given to `apply`, through which all updates go, those of all."""

    def __setattr__(self, name: str, value: Any) -> None:
        # This is how a LossScaleOptimizer, be it made by `compile`, takes an optimizer in.
        if name == "loss_scale_factor" and value is None and hasattr(self, "_passes"):
            raise InputError(THE_OTHER_WAY_ROUND)
        super().__setattr__(name, value)

    @not_converted
    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        """Update the variables by the gradients of all ranks (collective)."""
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if not variables or len(grads) != len(variables):
            return super().apply(grads, trainable_variables)  # which says what is wrong

        def apply(gradients: list[Gradient]) -> Any:
            return super(Keras3Update, self).apply(gradients, variables)

        return self._update(grads, variables, apply)
