"""A Keras optimizer whose updates are made of the gradients of all ranks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.compression import Compressor
from sciml_par.parallel.gradient_passes import GradientPasses
from sciml_par.parallel.gradient_reduction import Gradient, GradientReduction
from sciml_par.parallel.optimizer_copy import copy_of, give_state
from sciml_par.parallel.reduction import Average, ReduceOp

# The real base class is that of the optimizer given; see _distributed_class.
if TYPE_CHECKING:
    _Optimizer = Any
else:
    _Optimizer = object


def DistributedOptimizer(
    optimizer: Any,
    op: ReduceOp = Average,
    *,
    compression: type[Compressor] | None = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    local_variables: Sequence[Any] = (),
    scale_local_gradients: bool = True,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Any:
    """A copy of a Keras 3 optimizer that reduces the gradients over the ranks (local).

        model.compile(DistributedOptimizer(keras.optimizers.Adam(1e-3)), loss="mse")
        model.fit(x, y)                        # this rank's part of the data

    Its `apply`, through which `fit` and `apply_gradients` go, reduces the gradients in one
    transfer per element type (collective), and then does what the optimizer does: clipping,
    weight decay, accumulation and averages of weights act on the gradients of all ranks together.

    Parameters
    ----------
    optimizer : a `keras.optimizers.Optimizer`, built or not. Its values are copied; it is not used
        any more. A `LossScaleOptimizer` goes inside, never around: so the ranks decide together
        whether a step has overflowed. Where the global policy is "mixed_float16" another optimizer
        is put into one first, as `compile` would do; a loop of one's own then calls `scale_loss`.
    op, compression, sparse_as_dense, gradient_predivide_factor, groups, communicator, device :
        as for `DistributedGradientTape`.
    backward_passes_per_step : n > 1 adds up the gradients of n calls on this rank; every n-th
        reduces them and updates, and between nothing changes but these sums.
    average_aggregated_gradients : divide the sum of the n passes by n.
    local_variables : those whose gradients stay this rank's own.
    scale_local_gradients : divide these by P.

    Returns
    -------
    An optimizer of a class derived from that of `optimizer`, with the further method
    `register_local_var(variable)`. A model saved with it holds the plain optimizer, and is loaded
    without sciml_par.

    Raises
    ------
    InputError
        What is given is no Keras optimizer, or is distributed already; an option is outside of its
        range.

    Notes
    -----
    The sums of passes that are not complete are not saved.
    """
    _check_optimizer(optimizer)
    reduction = GradientReduction(
        op,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=groups,
        scale_local_gradients=scale_local_gradients,
        communicator=communicator,
        device=device,
        where="DistributedOptimizer",
    ).with_local(*local_variables)
    passes = _passes(backward_passes_per_step, average_aggregated_gradients)
    distributed = _distributed_copy(optimizer)
    distributed._reduction, distributed._passes = reduction, passes
    give_state(optimizer, distributed)
    return distributed


class _Distributed(_Optimizer):
    """What `DistributedOptimizer` puts in front of an optimizer's class."""

    _reduction: GradientReduction
    _passes: GradientPasses | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # This is how a LossScaleOptimizer, be it made by `compile`, takes an optimizer in.
        if name == "loss_scale_factor" and value is None and hasattr(self, "_reduction"):
            raise InputError(
                "A DistributedOptimizer was put inside a LossScaleOptimizer, where each rank would "
                "decide by itself whether a step has overflowed. Make it the other way round: "
                "DistributedOptimizer(LossScaleOptimizer(optimizer)). (Keras' compile() puts a "
                "LossScaleOptimizer around others where a model's policy is mixed_float16.)"
            )
        super().__setattr__(name, value)

    def register_local_var(self, variable: Any) -> None:
        """From now on, leave the gradient by `variable` to this rank (local)."""
        self._reduction = self._reduction.with_local(variable)

    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)
        if self._passes is not None:
            self._passes.build(variables)

    @as_written
    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> None:
        """Update the variables by the gradients of all ranks (collective)."""
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if not variables or len(grads) != len(variables):
            super().apply(grads, trainable_variables)  # which says what is wrong
            return
        self._check_variables(variables)
        if self._passes is None:
            super().apply(self._reduced(grads, variables), variables)
            return
        if not self.built:
            with tf.keras.name_scope(self.name, caller=self):
                self.build(variables)

        def update(sums: list[Gradient]) -> None:
            super(_Distributed, self).apply(self._reduced(sums, variables), variables)

        self._passes.add(grads, variables, update)

    def _check_variables(self, variables: Sequence[Any]) -> None:
        inner: Any = getattr(self, "inner_optimizer", self)
        if inner.global_clipnorm and any(map(self._reduction.is_local, variables)):
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
        if not local or not isinstance(self, tf.keras.optimizers.LossScaleOptimizer):
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


@functools.cache
def _distributed_class(plain: type) -> Any:
    attributes = {
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        # Keras looks up by __class__ under which name, and whose registration, it saves an object.
        "__class__": property(lambda self: plain),
    }
    return type(plain.__name__, (_Distributed, plain), attributes)


def _distributed_copy(optimizer: Any) -> Any:
    loss_scaling: Any = tf.keras.optimizers.LossScaleOptimizer
    mixed = tf.keras.config.dtype_policy().name == "mixed_float16"
    if mixed and not isinstance(optimizer, loss_scaling):
        inner = copy_of(optimizer, type(optimizer))
        return _distributed_class(loss_scaling)(inner, name="loss_scale_optimizer")
    plain: Any = type(optimizer)
    return copy_of(optimizer, _distributed_class(plain))


def _zero_if_finite(gradients: Sequence[Gradient]) -> Any:
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    finite = [tf.reduce_all(tf.math.is_finite(v)) for v in values if v is not None]
    return tf.where(tf.reduce_all(finite), 0.0, float("nan"))


def _passes(number: Any, average: bool) -> GradientPasses | None:
    if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
        raise InputError(
            f"DistributedOptimizer: expected backward_passes_per_step to be an integer ≥ 1; got "
            f"{number!r}."
        )
    return None if number == 1 else GradientPasses(int(number), average=average)


def _check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, _Distributed):
        raise InputError(
            "DistributedOptimizer: this optimizer is distributed already; use it as it is."
        )
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise InputError(
            f"DistributedOptimizer: expected a Keras optimizer; got {type(optimizer).__name__} of "
            f"tf.compat.v1.train. Use DistributedOptimizer of sciml_par.horovod.tensorflow."
        )
    if not isinstance(optimizer, tf.keras.optimizers.Optimizer):
        raise InputError(
            f"DistributedOptimizer: expected an optimizer of Keras 3, such as "
            f"keras.optimizers.Adam(); got {optimizer!r}."
        )
