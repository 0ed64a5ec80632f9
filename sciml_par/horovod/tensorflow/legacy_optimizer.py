"""Distributed optimizers of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from sciml_par._checks import check_count
from sciml_par._tensorflow import tf
from sciml_par.horovod.common.arguments import device_for, gradient_options
from sciml_par.horovod.common.process_sets import ProcessSet, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.legacy_accumulation import (
    Counter,
    LegacyAccumulation,
    after,
    done,
    local_variable,
)
from sciml_par.parallel import Adasum, Average, ReduceOp, fused_allreduce
from sciml_par.parallel.execution.dispatch import outside_the_order
from sciml_par.parallel.gradients.reduction import GradientReduction

_LegacyOptimizer: Any = tf.compat.v1.train.Optimizer


class _Wrapper(_LegacyOptimizer):
    """An optimizer whose slots are those of the inner optimizer; n ≥ 1 passes make a step."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool, passes: int) -> None:
        check_count("DistributedOptimizer", "backward_passes_per_step", passes)
        super().__init__(
            name=name or f"Distributed{type(optimizer).__name__}", use_locking=use_locking
        )
        self._optimizer = optimizer

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return the inner optimizer's."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the inner optimizer's."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Return the inner optimizer's."""
        return self._optimizer.variables(*args, **kwargs)


class _DistributedOptimizer(_Wrapper):
    """The optimizer of `tf.compat.v1.train` that `DistributedOptimizer` returns; see there."""

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: ReduceOp = Average,
        gradient_predivide_factor: float = 1.0,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        super().__init__(optimizer, name, use_locking, backward_passes_per_step)
        self._reduction = GradientReduction(
            op, where="DistributedOptimizer", **gradient_options(locals())
        )
        self._accumulation: LegacyAccumulation | None = None
        if backward_passes_per_step > 1:
            average = average_aggregated_gradients
            self._accumulation = LegacyAccumulation(backward_passes_per_step, average=average)

    def register_local_var(self, var: Any) -> None:
        """Do not reduce the gradient by `var` from now on."""
        self._reduction = self._reduction.with_local(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return the inner optimizer's gradients, reduced (collective)."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]

        def reduce(gradients: list[Any]) -> list[Any]:
            return self._reduction.reduce(gradients, variables)

        passes = self._accumulation
        reduced = reduce(gradients) if passes is None else passes.add(gradients, reduce)
        return list(zip(reduced, variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """Apply the gradients at every n-th pass; the global step counts every pass."""
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        def skip() -> Any:
            return None if global_step is None else global_step.assign_add(1)

        if self._accumulation is None:
            return apply()
        return self._accumulation.when_complete([gradient for gradient, _ in pairs], apply, skip)


class _DistributedAdasumOptimizer(_Wrapper):
    """An optimizer of `tf.compat.v1.train` whose steps are combined by Adasum.

        v ← v₀ + Adasum_r (v_r − v₀)

    where v_r is v₀ after n steps with rank r's gradients.
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        backward_passes_per_step: int = 1,
    ) -> None:
        super().__init__(optimizer, name, use_locking, backward_passes_per_step)
        self._compression = compression
        self._device = device_for(device_dense, device_sparse)
        self._number = backward_passes_per_step
        self._counter: Counter | None = None
        self._before: list[Any] = []

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Return the inner optimizer's gradients, of this rank."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Apply this rank's gradients; combine the steps every n-th time (collective)."""
        pairs = list(kwargs.pop("grads_and_vars", args[0] if args else ()))
        variables = [variable for gradient, variable in pairs if gradient is not None]
        if self._counter is None:
            self._counter = Counter(self._number)
            self._before = [
                local_variable(tf.zeros(v.shape, v.dtype.base_dtype), "before") for v in variables
            ]
        first = self._counter.at_the_start()
        kept = [
            done(before.assign(tf.where(first, tf.convert_to_tensor(variable), before)))
            for before, variable in zip(self._before, variables, strict=True)
        ]
        with tf.control_dependencies(kept):
            stepped = after(self._optimizer.apply_gradients(pairs, *args[1:], **kwargs))
        with tf.control_dependencies([stepped]):
            complete = self._counter.count()
        with outside_the_order():
            met = tf.cond(complete, lambda: self._meet(variables), lambda: tf.constant(True))
        return met if tf.executing_eagerly() else tf.group(met)

    def _meet(self, variables: list[Any]) -> Any:
        assert self._counter is not None
        starts = [before.read_value() for before in self._before]
        steps = fused_allreduce(
            [v.read_value() - start for v, start in zip(variables, starts, strict=True)],
            Adasum,
            compression=self._compression,
            device=self._device,
        )
        met = [
            done(variable.assign(start + step))
            for variable, start, step in zip(variables, starts, steps, strict=True)
        ]
        met.append(self._counter.reset())
        with tf.control_dependencies(met):
            return tf.constant(True)
