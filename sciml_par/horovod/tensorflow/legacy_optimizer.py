"""Distributed optimizers of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.horovod.common.arguments import device_for, gradient_options
from sciml_par.horovod.common.process_sets import ProcessSet, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.parallel import Adasum, Average, ReduceOp, fused_allreduce
from sciml_par.parallel.collectives.tensor_bundle import by_groups
from sciml_par.parallel.execution.dispatch import outside_the_order
from sciml_par.parallel.gradients.reduction import GradientReduction

Tensor = Any

_LegacyOptimizer: Any = tf.compat.v1.train.Optimizer


class _Wrapper(_LegacyOptimizer):
    """An optimizer whose slots are those of the inner optimizer; n ≥ 1 passes make a step."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool, passes: int) -> None:
        checked_integer(passes, "DistributedOptimizer: backward_passes_per_step", least=1)
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


class Counter:
    """A counter of this rank's passes, from 1 to `number`."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._passed = local_variable(tf.zeros([], tf.int64), "passes")

    def at_the_start(self) -> Tensor:
        """Return whether no pass has been counted since the last reset."""
        return tf.equal(self._passed.read_value(), 0)

    def count(self) -> Tensor:
        """Count a pass, and return whether it was the last."""
        return tf.convert_to_tensor(self._passed.assign_add(1)) >= self._number

    def reset(self) -> Any:
        """Return the operation that sets the counter to 0."""
        return done(self._passed.assign(0))


class LegacyAccumulation:
    """The sum of the gradients of n passes.

    A graph of TensorFlow 1 runs in any order that its edges allow. So every step here depends on
    the step before it. Executed eagerly, the same code runs from top to bottom.
    """

    def __init__(self, number: int, *, average: bool) -> None:
        self._number = number
        self._factor = 1 / number if average else 1.0
        self._counter: Counter | None = None
        self._sums: list[Any] = []

    def add(
        self, gradients: Sequence[Tensor], reduce: Callable[[list[Tensor]], list[Tensor]]
    ) -> list[Tensor]:
        """Return the reduced sums at every n-th pass, zeros at the others."""
        present = [i for i, g in enumerate(gradients) if g is not None]
        dense = [tf.convert_to_tensor(gradients[i]) for i in present]
        if self._counter is None:
            self._counter = Counter(self._number)
            self._sums = [local_variable(tf.zeros(g.shape, g.dtype), "sum") for g in dense]
        added = [done(s.assign_add(g)) for s, g in zip(self._sums, dense, strict=True)]
        with tf.control_dependencies(added):
            complete = self._counter.count()
        with outside_the_order():
            results = tf.cond(
                complete,
                lambda: self._finish(present, gradients, reduce),
                lambda: [tf.zeros(g.shape, g.dtype) for g in dense],
            )
        return by_groups(gradients, [present], lambda _: results)

    def _finish(
        self,
        present: list[int],
        gradients: Sequence[Tensor],
        reduce: Callable[[list[Tensor]], list[Tensor]],
    ) -> list[Tensor]:
        assert self._counter is not None
        sums = [total.read_value() * tf.cast(self._factor, total.dtype) for total in self._sums]
        reduced = reduce(by_groups(gradients, [present], lambda _: sums))
        results = [tf.convert_to_tensor(reduced[i]) for i in present]
        with tf.control_dependencies(results):
            cleared = [done(s.assign(tf.zeros(s.shape, s.dtype))) for s in self._sums]
            cleared.append(self._counter.reset())
        with tf.control_dependencies(cleared):
            return [tf.identity(result) for result in results]

    def when_complete(
        self, gradients: Sequence[Tensor], apply: Callable[[], Any], otherwise: Callable[[], Any]
    ) -> Any:
        """Run `apply` if `add` has just returned its sums, or else `otherwise`."""
        assert self._counter is not None
        with tf.control_dependencies([g for g in gradients if g is not None]):
            complete = self._counter.at_the_start()
        chosen = tf.cond(complete, lambda: after(apply()), lambda: after(otherwise()))
        return chosen if tf.executing_eagerly() else tf.group(chosen)


def local_variable(value: Tensor, name: str) -> Any:
    """Return a variable of this rank, which is not saved, trained or broadcast."""
    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or graph.building_function:
        with tf.init_scope():
            return tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False, name=name)
    return tf.compat.v1.Variable(
        value,
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
        name=f"sciml_par_{name}",
    )


def done(assigned: Any) -> Any:
    """Return the operation of a variable's `assign`."""
    return None if tf.executing_eagerly() else getattr(assigned, "op", assigned)


def after(operation: Any) -> Tensor:
    """Return a tensor that depends on `operation`."""
    with tf.control_dependencies([] if operation is None else [done(operation)]):
        return tf.constant(True)
