"""The updates of Keras 2's optimizers (tf_keras), legacy ones included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.distributed_update import THE_OTHER_WAY_ROUND, DistributedUpdate
from sciml_par.parallel.gradients.reduction import Gradient

Pairs = list[tuple[Gradient, Any]]
"""Gradients and variables."""


class Keras2Update(DistributedUpdate):
    """Reduces the gradients that it computes or is given, once."""

    _computed = False
    """Whether this optimizer has computed the next gradients to apply."""

    _goes_inside = False
    """Whether a `LossScaleOptimizer` is around it."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A LossScaleOptimizer sets this on its inner optimizer.
        if name == "_is_wrapped_by_loss_scale_optimizer" and value:
            if self._passes is not None:
                raise InputError(THE_OTHER_WAY_ROUND)
            name = "_goes_inside"
        super().__setattr__(name, value)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> Pairs:
        """Return the gradients of all ranks; this rank's for several passes (collective)."""
        return self._compute_gradients(loss, var_list, tape=tape)

    @not_converted
    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> Pairs:
        if hasattr(super(), "_compute_gradients"):
            pairs = super()._compute_gradients(loss, var_list, grad_loss, tape)
        else:
            pairs = super().compute_gradients(loss, var_list, tape)
        gradients, variables = _in_two(pairs)
        return list(zip(self._of_all_ranks(gradients, variables), variables, strict=True))

    @not_converted
    def get_gradients(self, loss: Any, params: Any) -> list[Gradient]:
        """Return the gradients of all ranks; this rank's for several passes (collective)."""
        return self._of_all_ranks(super().get_gradients(loss, params), tf.nest.flatten(params))

    def _of_all_ranks(
        self, gradients: Sequence[Gradient], variables: Sequence[Any]
    ) -> list[Gradient]:
        self._computed = True
        # Sums of passes are reduced when they are applied.
        if self._passes is not None:
            return list(gradients)
        return self._reduced(gradients, variables)

    @not_converted
    def apply_gradients(self, grads_and_vars: Any, name: str | None = None, **options: Any) -> Any:
        """Update the variables by the gradients of all ranks (collective)."""
        gradients, variables = _in_two(grads_and_vars)
        computed, self._computed = self._computed, False
        if self._goes_inside and not computed:
            raise InputError(THE_OTHER_WAY_ROUND)
        combined = options.get("skip_gradients_aggregation", False)
        combined = combined or not options.get("experimental_aggregate_gradients", True)
        reduce = not (computed or combined)
        if self._passes is not None:
            reduce = computed or not combined
        if name is not None:
            options["name"] = name

        def apply(gradients: list[Gradient]) -> Any:
            pairs = list(zip(gradients, variables, strict=True))
            return super(Keras2Update, self).apply_gradients(pairs, **options)

        if not variables:
            return apply([])
        if self._passes is not None and not tf.compat.v1.executing_eagerly_outside_functions():
            raise InputError(
                "DistributedOptimizer: optimizers of Keras add up several passes only in eager "
                "mode and in tf.function. Use one of tf.compat.v1.train in a TensorFlow 1 graph."
            )
        return self._update(gradients, variables, apply, reduce=reduce)


def _in_two(pairs: Any) -> tuple[list[Gradient], list[Any]]:
    pairs = list(pairs)
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
