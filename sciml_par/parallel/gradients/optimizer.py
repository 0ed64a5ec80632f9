"""A Keras optimizer that updates with the gradients of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.copied_optimizers import keep_copies_distributed
from sciml_par.parallel.gradients.distributed_update import (
    THE_OTHER_WAY_ROUND,
    DistributedUpdate,
    Keras2Update,
)
from sciml_par.parallel.gradients.optimizer_state import (
    copy_of,
    is_of_keras_3,
    is_optimizer,
    keras_of,
)
from sciml_par.parallel.gradients.reduction import Gradient, GradientReduction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp
from sciml_par.parallel.tensors.compression import Compressor


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
    count_passes: bool = False,
    local_variables: Sequence[Any] = (),
    scale_local_gradients: bool = True,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> Any:
    """Return a copy of a Keras optimizer that reduces the gradients over the ranks (local).

        model.compile(DistributedOptimizer(keras.optimizers.Adam(1e-3)), loss="mse")
        model.fit(x, y)                        # this rank's part of the data

    Its `apply`, which `fit` and `apply_gradients` call, reduces the gradients in one transfer per
    element type (collective) and then updates: clipping, weight decay, accumulation and averages of
    weights act on the gradients of all ranks together. Optimizers of Keras 2 (`tf_keras`, or
    `tf.keras` if TF_USE_LEGACY_KERAS is set), legacy ones included, reduce in `apply_gradients`, or
    in `compute_gradients` if they have one.

    Parameters
    ----------
    optimizer : an optimizer of Keras 3 or 2, built or not. Its values are copied; its other
        attributes, such as a schedule, are shared. Put a
        `LossScaleOptimizer` inside, never around: so the ranks decide together whether a step has
        overflowed. If the global policy is "mixed_float16", another optimizer is wrapped in one
        first, as in `compile`; a custom loop must then call `scale_loss`.
    op, compression, sparse_as_dense, gradient_predivide_factor, groups, communicator, device :
        as for `DistributedGradientTape`.
    backward_passes_per_step : n > 1 adds up the gradients of n calls on this rank; only every n-th
        call reduces them and updates.
    average_aggregated_gradients : divide the sum of the n passes by n.
    count_passes : let `iterations`, and with it schedules of the learning rate, count each pass.
    local_variables : the variables whose gradients are not reduced.
    scale_local_gradients : divide these by P.

    Returns
    -------
    An optimizer of a class derived from that of `optimizer`, with the additional method
    `register_local_var(variable)`. A model saved with it has the plain optimizer, and loads without
    sciml_par; the optimizer's name there ends with ".distributed-" and a digest of the options.

    Raises
    ------
    InputError
        `optimizer` is not a Keras optimizer; an option is outside its range.

    Notes
    -----
    A distributed `optimizer` gets these options instead of its own. Copies of the result reduce as
    well, also those by configuration (`clone_model`, `copy.deepcopy` of a model, `load_model` in
    the same program). Incomplete sums of passes are not saved.
    """
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise InputError(
            f"DistributedOptimizer: expected a Keras optimizer; got {type(optimizer).__name__} of "
            f"tf.compat.v1.train. Use DistributedOptimizer of sciml_par.horovod.tensorflow."
        )
    if not is_optimizer(optimizer):
        raise InputError(
            f"DistributedOptimizer: expected an optimizer of Keras, such as "
            f"keras.optimizers.Adam(); got {optimizer!r}."
        )
    checked_integer(
        backward_passes_per_step, "DistributedOptimizer: backward_passes_per_step", least=1
    )
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
    if isinstance(optimizer, DistributedUpdate):
        reduction = replace(reduction, local=reduction.local | optimizer._reduction.local)
    options = {
        "_reduction": reduction,
        "_backward_passes": int(backward_passes_per_step),
        "_average_passes": average_aggregated_gradients,
        "_count_passes": count_passes,
    }
    return _distribute(optimizer, options)


def _distribute(optimizer: Any, options: dict[str, Any]) -> Any:
    """Return a distributed optimizer with the state of `optimizer`."""
    keras = keras_of(optimizer)
    mixed = keras is not None and keras.mixed_precision.global_policy().name == "mixed_float16"
    if mixed and not hasattr(optimizer, "inner_optimizer"):
        inner = copy_of(optimizer, optimizer.__class__)
        optimizer = keras.mixed_precision.LossScaleOptimizer(inner)
    distributed = copy_of(optimizer, _distributed_class(optimizer, options))
    distributed._begin_passes()
    return distributed


def _distributed_class(optimizer: Any, options: dict[str, Any]) -> Any:
    plain: Any = optimizer.__class__  # of one that is distributed already, the plain class, too
    keep_copies_distributed(plain, _distribute)
    update = Keras3Update if is_of_keras_3(optimizer) else Keras2Update
    attributes = options | {
        "_options": options,
        "_distribute": staticmethod(_distribute),
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        # Keras saves an object under the name and the registration of its __class__.
        "__class__": property(lambda self: plain),
    }
    return type(plain)(plain.__name__, (update, plain), attributes)


class Keras3Update(DistributedUpdate):
    """Reduces the gradients given to `apply`, which all updates call."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A LossScaleOptimizer sets this on its inner optimizer.
        if name == "loss_scale_factor" and value is None and hasattr(self, "_passes"):
            raise InputError(THE_OTHER_WAY_ROUND)
        super().__setattr__(name, value)

    @not_converted
    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        """Update the variables by the gradients of all ranks (collective)."""
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if not variables or len(grads) != len(variables):
            return super().apply(grads, trainable_variables)  # raises Keras' error

        def apply(gradients: list[Gradient]) -> Any:
            return super(Keras3Update, self).apply(gradients, variables)

        return self._update(grads, variables, apply)
