"""The classes that `DistributedOptimizer` adds to an optimizer's, for every Keras."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.copied_optimizers import marked_config
from sciml_par.parallel.gradients.optimizer_state import build
from sciml_par.parallel.gradients.reduction import Gradient, GradientReduction, key_of
from sciml_par.parallel.groups.world import current_world

# The other base class is that of the given optimizer, see `DistributedOptimizer`.
if TYPE_CHECKING:
    _Optimizer = Any
else:
    _Optimizer = object

Apply = Callable[[list[Gradient]], Any]
"""The optimizer's update of its variables, given their gradients."""

Pairs = list[tuple[Gradient, Any]]
"""Gradients and variables."""

THE_OTHER_WAY_ROUND = (
    "A DistributedOptimizer was put inside a LossScaleOptimizer, where each rank would decide "
    "separately whether a step has overflowed. Make it the other way round: "
    "DistributedOptimizer(LossScaleOptimizer(optimizer)). (If a model's policy is mixed_float16, "
    "Keras' compile() wraps its optimizer in a LossScaleOptimizer.)"
)


class DistributedUpdate(_Optimizer):
    """An optimizer that updates with the gradients of all ranks.

    Derived classes route the optimizer's update through `_update`. Each `DistributedOptimizer` has
    a separate class with its options as attributes, so that `from_config` keeps them.
    `copied_optimizers.py` tells how the plain class's `from_config` does.
    """

    _reduction: GradientReduction
    _backward_passes: int
    _average_passes: bool
    _count_passes: bool
    _options: dict[str, Any]
    """The four attributes above by name, as `_distribute` takes them."""

    _distribute: Callable[[Any, dict[str, Any]], Any]
    """Makes a plain optimizer a distributed one."""

    _local_unknown = False
    """Whether it is a copy of an optimizer with local variables, which are another model's."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._begin_passes()

    def _begin_passes(self) -> None:
        number, average = self._backward_passes, self._average_passes
        self._passes = GradientPasses(number, average=average) if number > 1 else None

    def register_local_var(self, variable: Any) -> None:
        """Keep the gradient by `variable` on this rank from now on."""
        self._reduction = self._reduction.with_local(variable)
        self._local_unknown = False

    def get_config(self) -> dict[str, Any]:
        """Return the plain optimizer's configuration, with the options' digest in the name."""
        return marked_config(super().get_config(), self._options | {"_reduction": self._reduction})

    def __copy__(self) -> Any:
        try:
            return type(self).from_config(self.get_config())
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError(
                f"DistributedOptimizer: {self.__class__.__name__} cannot be copied by its "
                f"configuration ({error}). Give the class a get_config with all arguments of its "
                f"constructor, or create another optimizer."
            ) from error

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        reduction, group = self._reduction, self._reduction.communicator
        if reduction.local or not (group is None or group is current_world().communicator):
            raise InputError(
                "DistributedOptimizer: an optimizer with local variables or for some of the ranks "
                "cannot be pickled, because another process has neither. Pickle the plain "
                "optimizer, and call DistributedOptimizer where it is loaded."
            )
        general = replace(reduction.without_variables(), communicator=None)
        options = self._options | {"_reduction": general}
        return _unpickled, (self._distribute, self.__class__, super().get_config(), options)

    def _update(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        apply: Apply,
        *,
        reduce: bool = True,
    ) -> Any:
        """Call `apply` with the gradients of all ranks, or the sums of n passes (collective)."""
        self._check_variables(variables)
        if self._passes is not None:
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
        if self._local_unknown:
            raise InputError(
                "DistributedOptimizer: this is a copy of an optimizer with local variables, which "
                "belong to another model. Call register_local_var with this model's, or create "
                "the optimizer by PartialDistributedOptimizer."
            )
        inner: Any = getattr(self, "inner_optimizer", self)
        if getattr(inner, "global_clipnorm", None) and any(
            map(self._reduction.is_local, variables)
        ):
            raise InputError(
                "DistributedOptimizer: global_clipnorm with local variables would clip differently "
                "on each rank, and the shared variables would drift apart. Use clipnorm."
            )
        if any(getattr(variable, "overwrite_with_gradient", False) for variable in variables):
            raise InputError(
                "DistributedOptimizer: variables that are overwritten with their gradients, such "
                "as float8 scales, cannot be reduced over ranks. Use another dtype policy."
            )

    def _reduced(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        local = [
            g for g, v in zip(gradients, variables, strict=True) if self._reduction.is_local(v)
        ]
        if not local or not hasattr(self, "inner_optimizer"):
            return self._reduction.reduce(gradients, variables, optimizer=self)
        # An overflow in a local gradient must stop the step on all ranks.
        values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in local]
        finite = [tf.reduce_all(tf.math.is_finite(v)) for v in values if v is not None]
        verdict = tf.where(tf.reduce_all(finite), 0.0, float("nan"))
        *reduced, verdict = self._reduction.reduce(
            [*gradients, verdict], [*variables, verdict], optimizer=self
        )
        for i, gradient in enumerate(reduced):
            if gradient is not None:
                dense = tf.convert_to_tensor(gradient)
                reduced[i] = dense + tf.cast(verdict, dense.dtype)
                break
        return reduced


def _unpickled(distribute: Any, plain: Any, config: dict[str, Any], options: Any) -> Any:
    return distribute(plain.from_config(config), options)


class GradientPasses:
    """Adds up this rank's gradients of n passes."""

    def __init__(self, number: int, *, average: bool) -> None:
        self._number = number
        self._average = average
        self.counter: Any = None
        self._sums: dict[Hashable, Any] = {}

    def build(self, variables: Sequence[Any]) -> None:
        """Create the sums for gradients by `variables`."""
        with tf.init_scope():
            if self.counter is None:
                # TensorFlow keeps a GPU's int32 in host memory, where XLA cannot use it.
                self.counter = tf.Variable(0, dtype=tf.int64, trainable=False)
            for variable in variables:
                key = key_of(variable)
                if key not in self._sums:
                    zero = tf.zeros(variable.shape, variable.dtype)
                    self._sums[key] = tf.Variable(zero, trainable=False)

    @not_converted
    def add(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        then: Callable[[list[Gradient]], Any],
        otherwise: Callable[[], None],
    ) -> None:
        """Add `gradients` to the sums; at every n-th call run `then` on the sums and reset them."""
        sums = [
            None if g is None else self._sums[key_of(v)]
            for g, v in zip(gradients, variables, strict=True)
        ]
        for total, gradient in zip(sums, gradients, strict=True):
            if total is not None:
                total.assign_add(tf.cast(tf.convert_to_tensor(gradient), total.dtype))
        passed = self.counter.assign_add(1, read_value=True)

        def finish() -> None:
            factor = 1 / self._number if self._average else 1.0
            then([None if s is None else tf.convert_to_tensor(s) * factor for s in sums])
            for total in sums:
                if total is not None:
                    total.assign(tf.zeros_like(total))
            self.counter.assign(tf.zeros_like(self.counter))

        tf.cond(passed >= self._number, finish, otherwise)


class Keras2Update(DistributedUpdate):
    """For optimizers of Keras 2 (tf_keras), legacy ones included.

    It reduces the gradients that it computes or is given, once.
    """

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
