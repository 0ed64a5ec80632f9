"""Copies and states of the optimizers of Keras 3, of Keras 2, and Keras 2's legacy ones."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.gradients.copied_optimizers import plain_name

_NOT_IN_THE_CONFIG = (
    "_exclude_from_weight_decay",
    "_exclude_from_weight_decay_pattern",
    "gradient_aggregator",
    "gradient_transformers",
)


_NOT_COPIED = frozenset(
    ("name", "_variables", "_tracker", "_iterations", "_learning_rate")
    + ("_agg_helper", "_passes", "_reduction")
)
"""Attributes of an optimizer of Keras 3 that a constructor or `DistributedOptimizer` sets."""

def is_optimizer(given: Any) -> bool:
    """Return whether `given` is an optimizer of any Keras."""
    return hasattr(type(given), "apply_gradients") and hasattr(type(given), "get_config")


def keras_of(optimizer: Any) -> Any:
    """Return an optimizer's package: `keras` (Keras 3), `tf_keras`, or None within TensorFlow."""
    roots = [each.__module__.partition(".")[0] for each in type(optimizer).__mro__]
    return next((sys.modules[root] for root in roots if root in ("keras", "tf_keras")), None)


def is_of_keras_3(optimizer: Any) -> bool:
    """Return whether the optimizer updates in `apply`, and not in `apply_gradients`."""
    keras = keras_of(optimizer)
    return keras is not None and keras.__name__ == "keras"


def state_of(optimizer: Any) -> list[Any]:
    """Return the optimizer's variables; before it is built, only a counter and a rate."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Create the optimizer's variables for those of a model, unless they exist."""
    if not is_of_keras_3(optimizer):
        with tf.init_scope():
            # Legacy optimizers have only the private one.
            make = getattr(optimizer, "_create_all_weights", None) or optimizer.build
            make(list(variables))
    elif not optimizer.built:
        with keras_of(optimizer).name_scope(optimizer.name, caller=optimizer):
            optimizer.build(list(variables))
    if getattr(optimizer, "_take_state", None) is not None:
        optimizer._take_state()
        optimizer._take_state = None


def take_over(source: Any, target: Any) -> None:
    """Copy the state of `source` of Keras 2 to `target`, now or when `target` is built."""
    inside = hasattr(target, "inner_optimizer") and not hasattr(source, "inner_optimizer")
    receiver = target.inner_optimizer if inside else target
    values = [np.array(tf.convert_to_tensor(variable)) for variable in state_of(source)]
    if len(state_of(receiver)) == len(values):
        _assign(receiver, values)
    else:
        receiver.iterations.assign(source.iterations)
        target._take_state = functools.partial(_assign, receiver, values)
    scale: Any = getattr(source, "_loss_scale", None)  # outside the state
    if hasattr(scale, "counter"):
        target._loss_scale.current_loss_scale.assign(scale.current_loss_scale)
        target._loss_scale.counter.assign(scale.counter)


def _assign(optimizer: Any, values: Sequence[np.ndarray]) -> None:
    variables = state_of(optimizer)
    if [list(variable.shape) for variable in variables] != [list(value.shape) for value in values]:
        raise InputError(
            f"DistributedOptimizer: {type(optimizer).__name__} has the state of an optimizer of "
            f"other variables than those now given. Create it from a new optimizer."
        )
    with tf.init_scope():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def copy_of(optimizer: Any, into: Any) -> Any:
    """Return an optimizer of class `into` like `optimizer`; in Keras 2 without its state."""
    copy = _with_attributes_of if is_of_keras_3(optimizer) else _from_config_of
    return copy(optimizer, into)


def _with_attributes_of(optimizer: Any, into: Any) -> Any:
    """Return a copy that shares all but the optimizer's variables, which it has anew.

    A custom class needs no `get_config`, and its constructor is not called.
    """
    keras: Any = keras_of(optimizer)
    rate = raw_learning_rate(optimizer)
    copy = into.__new__(into)
    keras.optimizers.Optimizer.__init__(
        copy,
        learning_rate=rate if callable(rate) else float(rate),
        name=plain_name(optimizer.name),
    )
    copies = {id(optimizer): copy, id(rate): copy._learning_rate}
    for variable in vars(optimizer)["_variables"]:
        if variable is optimizer._iterations:
            copies[id(variable)] = copy._iterations
        elif variable is not rate:
            copies[id(variable)] = copy.add_variable(
                variable.shape, dtype=variable.dtype, name=variable.name
            )
        copies[id(variable)].assign(variable)

    def copied(value: Any) -> Any:
        if id(value) in copies:
            return copies[id(value)]
        if isinstance(value, keras.optimizers.Optimizer):
            return copy_of(value, type(value))
        if isinstance(value, list | tuple | set) and not hasattr(value, "_fields"):
            kind = next(kind for kind in (list, tuple, set) if isinstance(value, kind))
            return kind(map(copied, value))
        if isinstance(value, dict):
            return {key: copied(item) for key, item in value.items()}
        return value

    for name, value in vars(optimizer).items():
        if name.startswith("_trainable_variables"):
            vars(copy)[name] = copied(value)  # the model's, which are not to be tracked
        elif name not in _NOT_COPIED and not name.startswith("_self_"):
            setattr(copy, name, copied(value))
    return copy


def _from_config_of(optimizer: Any, into: Any) -> Any:
    try:
        config = optimizer.get_config()
        if "name" in config:
            config["name"] = plain_name(config["name"])
        rate = raw_learning_rate(optimizer)
        if callable(rate):
            config["learning_rate"] = rate
        if "inner_optimizer" in config:
            inner = optimizer.inner_optimizer
            config.pop("learning_rate", None)
            config["inner_optimizer"] = copy_of(inner, type(inner))
        copy = into(**config) if "inner_optimizer" in config else into.from_config(config)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"DistributedOptimizer: {type(optimizer).__name__} cannot be created from its "
            f"get_config() ({error}). With Keras 2 a custom optimizer or schedule needs a "
            f"get_config with all arguments of its constructor."
        ) from error
    for name in _NOT_IN_THE_CONFIG:
        if name in vars(optimizer):
            setattr(copy, name, vars(optimizer)[name])
    return copy


def raw_learning_rate(optimizer: Any) -> Any:
    """Return the learning rate, or the schedule or function that gives it."""
    legacy = vars(optimizer).get("_hyper", {}).get("learning_rate")
    return getattr(optimizer, "_learning_rate", None) if legacy is None else legacy
