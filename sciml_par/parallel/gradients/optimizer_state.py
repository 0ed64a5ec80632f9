"""What the optimizers of Keras 3, of Keras 2, and Keras 2's legacy ones have in common."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

_NOT_IN_THE_CONFIG = (
    "_exclude_from_weight_decay",
    "_exclude_from_weight_decay_pattern",
    "gradient_aggregator",
    "gradient_transformers",
)


def is_optimizer(given: Any) -> bool:
    """Return whether it is an optimizer of any Keras."""
    return hasattr(type(given), "apply_gradients") and hasattr(type(given), "get_config")


def keras_of(optimizer: Any) -> Any:
    """The Keras package that an optimizer comes from: `keras`, which is Keras 3, or `tf_keras`.

    None for the remains of Keras 2 within TensorFlow.
    """
    roots = [each.__module__.partition(".")[0] for each in type(optimizer).__mro__]
    return next((sys.modules[root] for root in roots if root in ("keras", "tf_keras")), None)


def is_of_keras_3(optimizer: Any) -> bool:
    """Return whether `apply` is its way of updating variables, and not `apply_gradients`."""
    keras = keras_of(optimizer)
    return keras is not None and keras.__name__ == "keras"


def state_of(optimizer: Any) -> list[Any]:
    """Return the optimizer's variables; before it is built no more than a counter and a rate."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Make the optimizer's variables for those of a model, unless it has them."""
    if not is_of_keras_3(optimizer):
        with tf.init_scope():
            # The legacy optimizers' way is the private one.
            make = getattr(optimizer, "_create_all_weights", None) or optimizer.build
            make(list(variables))
    elif not optimizer.built:
        with keras_of(optimizer).name_scope(optimizer.name, caller=optimizer):
            optimizer.build(list(variables))
    if getattr(optimizer, "_take_state", None) is not None:
        optimizer._take_state()
        optimizer._take_state = None


def take_over(source: Any, target: Any) -> None:
    """Give `target` the state of `source`, now or when it is built.

    `target` is like it, or a `LossScaleOptimizer` around one that is.
    """
    inside = hasattr(target, "inner_optimizer") and not hasattr(source, "inner_optimizer")
    receiver = target.inner_optimizer if inside else target
    if is_of_keras_3(source) and source.built:
        build(target, source._trainable_variables)  # those of Keras 2 do not keep them
    values = [np.array(tf.convert_to_tensor(variable)) for variable in state_of(source)]
    if len(state_of(receiver)) == len(values):
        _assign(receiver, values)
    else:
        receiver.iterations.assign(source.iterations)
        target._take_state = functools.partial(_assign, receiver, values)
    scale: Any = getattr(source, "_loss_scale", None)  # in Keras 2 it is no part of the state
    if hasattr(scale, "counter"):
        target._loss_scale.current_loss_scale.assign(scale.current_loss_scale)
        target._loss_scale.counter.assign(scale.counter)


def _assign(optimizer: Any, values: Sequence[np.ndarray]) -> None:
    variables = state_of(optimizer)
    if [list(variable.shape) for variable in variables] != [list(value.shape) for value in values]:
        raise InputError(
            f"DistributedOptimizer: {type(optimizer).__name__} was made of one that has a state "
            f"for other variables than those it is now given. Make it of a new optimizer."
        )
    with tf.init_scope():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def copy_of(optimizer: Any, into: Any) -> Any:
    """Return an optimizer of class `into` with the configuration of `optimizer`, not built."""
    config = optimizer.get_config()
    rate = raw_learning_rate(optimizer)
    if callable(rate):
        config["learning_rate"] = rate  # a schedule or function, which need not be serializable
    if "inner_optimizer" in config:
        inner = optimizer.inner_optimizer
        config.pop("learning_rate", None)
        config["inner_optimizer"] = copy_of(inner, type(inner))
    try:
        copy = into(**config) if "inner_optimizer" in config else into.from_config(config)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"DistributedOptimizer: {type(optimizer).__name__} cannot be made anew of what its "
            f"get_config() returns ({error}). A class of your own needs a get_config with all "
            f"arguments of its constructor."
        ) from error
    for name in _NOT_IN_THE_CONFIG:
        if name in vars(optimizer):
            setattr(copy, name, vars(optimizer)[name])
    return copy


def raw_learning_rate(optimizer: Any) -> Any:
    """Return the learning rate, or the schedule or function that gives it."""
    legacy = vars(optimizer).get("_hyper", {}).get("learning_rate")
    return getattr(optimizer, "_learning_rate", None) if legacy is None else legacy
