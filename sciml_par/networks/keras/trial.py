"""A Keras model as a function u(x) of its weights, and whether it is one, by trying."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.quiet_keras import keras

_ROWS = 6
_REMEDY = (
    "Remove layers such as Dropout, noise, SpectralNormalization, BatchNormalization (unless it "
    "has trainable=False) and stateful layers; LayerNormalization and an adapted Normalization "
    "are allowed."
)
_RANDOM = ("Random", "StatelessRandom", "Multinomial", "ParameterizedTrunc")


@dataclass(frozen=True)
class KerasFunction:
    """u(x) of a built Keras model with given weights.

    `frozen` has the values of `model.non_trainable_variables`, layer statistics included.
    """

    model: Any
    frozen: tuple[Any, ...]

    def __call__(self, parameters: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
        """Return u(x): [n, d] -> [n, m] (pure, local)."""
        return self.with_states(parameters, x, training=False)[0]

    def with_states(
        self, parameters: Sequence[tf.Tensor], x: tf.Tensor, *, training: bool
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the output, and the variables that are not trained as they are afterwards.

        This is what Keras' `stateless_call` does, but by `__call__`, which hands `training` down
        to the layers of models whose `call` does not take it.
        """
        held = [tf.convert_to_tensor(value) for value in self.frozen]
        mapping = [
            *zip(self.model.trainable_variables, parameters, strict=True),
            *zip(self.model.non_trainable_variables, held, strict=True),
        ]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            output = self.model(x, training=training)
        states = [scope.get_current_value(v) for v in self.model.non_trainable_variables]
        # Where nothing has been assigned, Keras answers None.
        after = [h if s is None else s for h, s in zip(held, states, strict=True)]
        return output, after


def described(model: Any) -> str:
    """Return the model's name and class for messages."""
    return f"network: the model {getattr(model, 'name', '')!r} ({type(model).__name__})"


def build(model: Any, d: int, dtype: str) -> None:
    """Call a model once with points [n, d], which builds its layers."""
    name = described(model)
    try:
        if isinstance(model, keras.Sequential) and not model.built:
            model.build((None, d))  # a call would give it a fixed number of points
        output = model(tf.zeros([2, d], dtype))
    except InputError:
        raise
    except Exception as error:  # Keras, TensorFlow and the user's own code raise all kinds
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # without the colours of Keras
        raise InputError(
            f"{name} cannot be called with points [n, {d}], one tensor with a row for each point: "
            f"{type(error).__name__}: {' '.join(plain.split())}"
        ) from error
    if not tf.is_tensor(output):
        raise InputError(
            f"{name} returns a {type(output).__name__}, but a field is one tensor [n, m]; join "
            f"several outputs with keras.layers.Concatenate()."
        )


def check_weights(model: Any, dtype: str) -> None:
    """Check that a built model has weights that a compiled loop can train, and no loss."""
    name = described(model)
    if not model.trainable_variables:
        raise InputError(f"{name} has no weights to train; add layers, or set trainable=True.")
    if model.losses:
        raise InputError(
            f"{name} has a loss (a regularizer or add_loss), but the loss is the problem's; "
            f"remove it, or use the weight decay of AdamW."
        )
    for variable in model.trainable_variables:
        if getattr(variable, "constraint", None) is not None:
            raise InputError(
                f"{name}: the weights {variable.path!r} have a constraint, which a compiled loop "
                f"does not apply; remove it, or write it into the layer's call."
            )
        found = tf.as_dtype(variable.dtype).name
        if found != dtype:
            raise InputError(_precision(name, found, dtype))


def trial(function: KerasFunction, d: int, dtype: str) -> tuple[Any, Any, Any]:
    """Return trial weights, points [n, d] and the model's values [n, m] there.

    The weights are near the model's, but none is zero, since zeros would hide most faults.
    """
    rng = np.random.default_rng(0)
    x = tf.constant(np.random.default_rng(1).uniform(-1, 1, (_ROWS, d)), dtype)
    values = [np.asarray(v) for v in function.model.trainable_variables]
    parameters = [tf.constant((v + 0.1 * rng.normal(size=v.shape)).astype(v.dtype)) for v in values]
    name, u = described(function.model), function(parameters, x)
    if u.shape.rank != 2 or u.shape[0] != _ROWS:
        raise InputError(
            f"{name} gives {u.shape.as_list()} for points {x.shape.as_list()}, but a field is "
            f"[n, m], with a row for each point."
        )
    if u.dtype != dtype:
        raise InputError(_precision(name, u.dtype.name, dtype))
    return parameters, x, u


def check_behaviour(function: KerasFunction, parameters: Any, x: Any, u: Any) -> None:
    """Check that u(x) depends on x and the weights alone: not on calls, flags or other points."""
    for training in (False, True):
        output, states = function.with_states(parameters, x, training=training)
        variables = function.model.non_trainable_variables
        for variable, before, after in zip(variables, function.frozen, states, strict=True):
            if not np.array_equal(before, np.asarray(after), equal_nan=before.dtype.kind == "f"):
                raise _not_a_function(
                    function.model, f"a call with training={training} changes {variable.path!r}"
                )
    if not close(output, u):
        raise _not_a_function(
            function.model, "it gives other values with training=True than with training=False"
        )
    half = _ROWS // 2
    with_others = tf.concat([x[:half], 0.5 * x[half:] - 0.1], axis=0)
    if not close(function(parameters, with_others)[:half], u[:half]) or not close(
        function(parameters, x[:half]), u[:half]
    ):
        raise _not_a_function(
            function.model, "its output at one point depends on the other points of the batch"
        )


def check_operations(model: Any, traced: Any, dtype: str) -> None:
    """Check that a traced model has no operation that a compiled loop cannot do or repeat."""
    name = described(model)
    for operation in _operations(traced.graph):
        if operation.type.startswith(_RANDOM):
            raise _not_a_function(model, "it draws random numbers at each call")
        if "PyFunc" in operation.type:
            raise InputError(
                f"{name} calls a Python function ({operation.type}), which cannot be compiled or "
                f"differentiated; write it with TensorFlow or keras.ops."
            )
        if operation.type == "Cast" and operation.inputs[0].dtype == dtype:
            found = operation.outputs[0].dtype
            if found.is_floating and found != dtype:
                raise InputError(_precision(name, found.name, dtype))
    trainable = [v for v in traced.graph.variables if v.trainable]
    if trainable:
        raise InputError(
            f"{name} reads the tf.Variable {trainable[0].name.removesuffix(':0')!r}, which is not "
            f"a weight of the Keras model and would not be trained; make it with "
            f"self.add_weight(...), or with trainable=False."
        )


def close(a: Any, b: Any, *, least: float = 0.0) -> bool:
    """Return whether values agree up to rounding, or up to the relative difference `least`."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    tolerance = max(1e4 * float(np.finfo(a.dtype).eps), least)
    return bool(np.max(np.abs(a - b), initial=0.0) <= tolerance * np.max(np.abs(b), initial=1e-30))


def _not_a_function(model: Any, fault: str) -> InputError:
    return InputError(f"{described(model)} is not a function u(x): {fault}. {_REMEDY}")


def _precision(name: str, found: str, dtype: str) -> str:
    known = found in ("float32", "float64")
    other = f'give train precision="{found}", or ' if known else ""
    return (
        f"{name} computes in {found}, but the training in {dtype}; {other}make its layers with "
        f"dtype={dtype!r}, or give a function that makes the model, which is called in {dtype}."
    )


def _operations(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph and of the functions that these call."""
    yield from graph.get_operations()
    for function in getattr(graph, "_functions", {}).values():
        yield from getattr(getattr(function, "graph", None), "get_operations", list)()
