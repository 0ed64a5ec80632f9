"""A Keras optimizer as a pure function of tensors.

Keras' own `stateless_apply` refuses to work on TensorFlow, where optimizers assign to TensorFlow's
variables. Here a copy of the optimizer is of a class that takes these assignments back to Keras'
variables, for which a `keras.StatelessScope` records what they would become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.networks.layers.quiet_keras import keras

Tensor = Any


class StatelessUpdate(keras.optimizers.Optimizer):
    """What stands between an optimizer's class and Keras' base class for TensorFlow.

    Behind the optimizer's class in the order of resolution, so that whatever an optimizer does in
    its own way it goes on doing.
    """

    rate_factor: Tensor = None
    """What the learning rate is multiplied by."""

    def assign(self, variable: Any, value: Tensor) -> None:
        variable.assign(tf.cast(value, variable.dtype))

    def assign_add(self, variable: Any, value: Tensor) -> None:
        variable.assign(variable.value + tf.cast(value, variable.dtype))

    def assign_sub(self, variable: Any, value: Tensor) -> None:
        variable.assign(variable.value - tf.cast(value, variable.dtype))

    def _var_key(self, variable: Any) -> int:
        return id(variable)

    def _get_current_learning_rate(self) -> Tensor:
        rate = super()._get_current_learning_rate()
        if self.rate_factor is None:
            return rate
        # Keras keeps rates in single precision, and not all of its optimizers (Muon) cast them.
        dtype = self._trainable_variables[0].dtype
        return tf.cast(rate, dtype) * tf.cast(self.rate_factor, dtype)

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        if self.weight_decay is None:
            return
        pattern = getattr(self, "_exclude_from_weight_decay_pattern", None)
        for variable in variables:
            # On TensorFlow, Keras compares the name of TensorFlow's variable.
            if pattern is None or not re.search(pattern, f"{variable.path}:0"):
                rate = tf.cast(self.learning_rate, variable.dtype)
                decay = tf.cast(self.weight_decay, variable.dtype)
                variable.assign(variable.value - variable.value * decay * rate)

    def _backend_update_step(
        self, gradients: Sequence[Tensor], variables: Sequence[Any], learning_rate: Tensor
    ) -> None:
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)

    def _backend_apply_gradients(self, gradients: list[Tensor], variables: list[Any]) -> None:
        every = self.gradient_accumulation_steps
        if every:
            self._accumulate(every, gradients, variables)
        else:
            self._clip_and_update(gradients, variables)
        if self.use_ema:
            self._average(variables)

    def _clip_and_update(self, gradients: list[Tensor], variables: list[Any]) -> None:
        gradients = self._clip_gradients(gradients)
        self._apply_weight_decay(variables)
        self._backend_update_step(gradients, variables, self.learning_rate)

    def _accumulate(self, every: int, gradients: list[Tensor], variables: list[Any]) -> None:
        sums = self._accumulated_gradients
        total = [g + s.value for g, s in zip(gradients, sums, strict=True)]
        apart = [*sums, self._iterations, self._learning_rate]
        others = [*variables, *(v for v in self.variables if not _is_in(v, apart))]
        before = [v.value for v in others]
        due = tf.equal((self._iterations.value + 1) % every, 0)
        self._clip_and_update([t / every for t in total], variables)
        # Without a branch, in which a stateless scope would lose what it records.
        for variable, value in zip(others, before, strict=True):
            variable.assign(tf.where(due, variable.value, value))
        for variable, value in zip(sums, total, strict=True):
            variable.assign(tf.where(due, tf.zeros_like(value), value))

    def _average(self, variables: list[Any]) -> None:
        self._update_model_variables_moving_average(variables)
        if self.ema_overwrite_frequency:
            due = tf.equal((self.iterations + 1) % self.ema_overwrite_frequency, 0)
            averages = self._model_variables_moving_average
            for variable, average in zip(variables, averages, strict=True):
                variable.assign(tf.where(due, average.value, variable.value))

    def _overwrite_model_variables_with_average_value(self, variables: list[Any]) -> None:
        averages = self._model_variables_moving_average
        for variable, average in zip(variables, averages, strict=True):
            variable.assign(average.value)


@lru_cache(maxsize=64)
def stateless_class(plain: type) -> Any:
    """Return a class like that of a Keras optimizer, for use in a stateless scope."""
    return type(plain)(plain.__name__, (plain, StatelessUpdate), {"__module__": plain.__module__})


class Parameter(keras.Variable):
    """A variable that stands for some of the parameters, under their name in the network."""

    def __init__(self, value: Tensor, name: str) -> None:
        super().__init__(value, dtype=value.dtype.name, name=name.rpartition("/")[2])
        self._path = name


class PureOptimizer:
    """An optimizer built for given parameters, whose updates are functions of tensors.

    Its `state` is all its variables but the counter of steps and the learning rate.
    """

    def __init__(self, optimizer: Any, values: Sequence[Tensor], names: Sequence[str]) -> None:
        self._optimizer = optimizer
        self._parameters = [Parameter(v, name) for v, name in zip(values, names, strict=True)]
        optimizer.build(self._parameters)
        # Both are known from elsewhere, and no member's own.
        apart = [optimizer._iterations, optimizer._learning_rate]
        self._fixed = [v for v in optimizer.variables if _is_in(v, apart[1:])]
        self._variables = [v for v in optimizer.variables if not _is_in(v, apart)]
        # As numbers: they are used while a function is traced, but not of it.
        self._rates = [v.numpy() for v in self._fixed]
        self.state = [tf.convert_to_tensor(v.value) for v in self._variables]

    def update(
        self,
        values: Sequence[Tensor],
        gradients: Sequence[Tensor],
        state: Sequence[Tensor],
        factor: Tensor,
        done: Tensor,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return new values and a new state."""
        self._optimizer.rate_factor = factor

        def apply() -> None:
            try:
                self._optimizer.apply(list(gradients))
            except (AttributeError, TypeError, ValueError) as error:  # of Keras or the user's class
                raise InputError(
                    f"optimizer: {type(self._optimizer).__name__} cannot update parameters of "
                    f"{values[0].dtype.name}: {one_line(error)}"
                ) from error

        return self._in_scope(apply, values, state, done)

    def finish(self, values: Sequence[Tensor], state: Sequence[Tensor]) -> list[Tensor]:
        """Return the values as Keras' `fit` leaves them at its end."""
        finalize = partial(self._optimizer.finalize_variable_values, self._parameters)
        return self._in_scope(finalize, values, state, tf.zeros([], tf.int64))[0]

    def _in_scope(
        self,
        action: Callable[[], None],
        values: Sequence[Tensor],
        state: Sequence[Tensor],
        done: Tensor,
    ) -> tuple[list[Tensor], list[Tensor]]:
        counter = self._optimizer._iterations
        given = [
            *zip(self._parameters, values, strict=True),
            *zip(self._variables, state, strict=True),
            *zip(self._fixed, map(tf.constant, self._rates), strict=True),
            (counter, done),
        ]
        expected, captured = {id(variable) for variable, _ in given}, _captured_variables()
        with keras.StatelessScope(state_mapping=given) as scope:
            rates = [scope.get_current_value(v) for v in self._fixed]
            action()
        after = [scope.get_current_value(v) for v in self._fixed]
        same = all(a is b for a, b in zip(after, rates, strict=True))
        others = not scope.state_mapping.keys() <= expected or _captured_variables() != captured
        if others or not same:
            raise InputError(
                f"optimizer: {type(self._optimizer).__name__} reads or changes a variable that is "
                f"not in its `variables`, or changes its own learning rate. Create its variables "
                f"in build(), with add_variable or add_optimizer_variables."
            )
        return (
            [scope.get_current_value(v) for v in self._parameters],
            [scope.get_current_value(v) for v in self._variables],
        )


def _captured_variables() -> int:
    """Return how many variables the function that is traced has read or assigned."""
    if tf.executing_eagerly():
        return 0
    captures = getattr(tf.compat.v1.get_default_graph(), "external_captures", ())
    return sum(tensor.dtype == tf.resource for tensor in captures)


def _is_in(variable: Any, variables: Sequence[Any]) -> bool:
    return any(variable is each for each in variables)
