"""What `DistributedOptimizer` puts in front of an optimizer's class, whichever Keras it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.gradients.accumulation import GradientPasses
from sciml_par.parallel.gradients.optimizer_state import build
from sciml_par.parallel.gradients.reduction import Gradient, GradientReduction

# The real base class is that of the optimizer given; see `DistributedOptimizer`.
if TYPE_CHECKING:
    _Optimizer = Any
else:
    _Optimizer = object

Apply = Callable[[list[Gradient]], Any]
"""An optimizer's own way of updating its variables, given their gradients."""

THE_OTHER_WAY_ROUND = (
    "A DistributedOptimizer was put inside a LossScaleOptimizer, where each rank would decide by "
    "itself whether a step has overflowed. Make it the other way round: "
    "DistributedOptimizer(LossScaleOptimizer(optimizer)). (Keras' compile() puts a "
    "LossScaleOptimizer around others where a model's policy is mixed_float16.)"
)


class DistributedUpdate(_Optimizer):
    """An optimizer whose updates are made of the gradients of all ranks.

    A derived class leads the optimizer's way of updating variables through `_update`. A class is
    made for each `DistributedOptimizer`, with its options as attributes, so that its `from_config`
    makes optimizers that have them, too.
    """

    _reduction: GradientReduction
    _backward_passes: int
    _average_passes: bool
    _count_passes: bool
    _take_state: Callable[[], bool] | None = None
    """Gives it the state of the optimizer it was made of, once it has the variables."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._passes: GradientPasses | None = None
        if self._backward_passes > 1:
            self._passes = GradientPasses(self._backward_passes, average=self._average_passes)

    def register_local_var(self, variable: Any) -> None:
        """From now on, leave the gradient by `variable` to this rank."""
        self._reduction = self._reduction.with_local(variable)

    def _update(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        apply: Apply,
        *,
        reduce: bool = True,
    ) -> Any:
        """`apply` the gradients of all ranks, or what n passes have summed up (collective)."""
        self._check_variables(variables)
        if self._passes is not None or self._take_state is not None:
            build(self, variables)

        def update(gradients: list[Gradient]) -> Any:
            return apply(self._reduced(gradients, variables) if reduce else gradients)

        if self._passes is None:
            return update(list(gradients))
        self._passes.build(variables)
        self._passes.add(gradients, variables, update, self._count)
        return self.iterations

    def _count(self) -> None:
        if self._count_passes:
            inner: Any = getattr(self, "inner_optimizer", self)
            inner.iterations.assign_add(1)

    def _check_variables(self, variables: Sequence[Any]) -> None:
        inner: Any = getattr(self, "inner_optimizer", self)
        if getattr(inner, "global_clipnorm", None) and any(
            map(self._reduction.is_local, variables)
        ):
            raise InputError(
                "DistributedOptimizer: global_clipnorm with local variables would clip otherwise "
                "on each rank, and the shared variables would drift apart. Use clipnorm."
            )
        if any(getattr(variable, "overwrite_with_gradient", False) for variable in variables):
            raise InputError(
                "DistributedOptimizer: variables that are overwritten with their gradient, as the "
                "scales of float8 layers, cannot be reduced over ranks. Use another dtype policy."
            )

    def _reduced(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        local = [
            g for g, v in zip(gradients, variables, strict=True) if self._reduction.is_local(v)
        ]
        if not local or not hasattr(self, "inner_optimizer"):
            return self._reduction.reduce(gradients, variables)
        # An overflow in a local gradient must stop the step on all ranks, as any other does.
        verdict = _zero_if_finite(local)
        *reduced, verdict = self._reduction.reduce([*gradients, verdict], [*variables, verdict])
        for i, gradient in enumerate(reduced):
            if gradient is not None:
                dense = tf.convert_to_tensor(gradient)
                reduced[i] = dense + tf.cast(verdict, dense.dtype)
                break
        return reduced


def _zero_if_finite(gradients: Sequence[Gradient]) -> Any:
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    finite = [tf.reduce_all(tf.math.is_finite(v)) for v in values if v is not None]
    return tf.where(tf.reduce_all(finite), 0.0, float("nan"))
